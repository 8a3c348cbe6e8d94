"""Conversations: what was said and done in each session, in order, and which of it is true."""

from __future__ import annotations

from typing import Any

from conversations import ANSWER, HELPER, MAIN, OTHER, misreporting_run
from support import Runs, recorded

from critiqor.conversation.checked_text import Piece, checked_text
from critiqor.conversation.entries import ConversationBuilder, Entry
from critiqor.model import Claim, ClaimStatus, Event
from critiqor.run.store import Run


def built(*events: Event) -> tuple[ConversationBuilder, list[Entry]]:
    builder, entries = ConversationBuilder(), dict[tuple[int, int], Entry]()
    for number, event in enumerate(events, 1):
        entry = builder.observe(number, event)
        if entry is not None:
            entries[entry.session, entry.place] = entry
    return builder, list(entries.values())


def event(number: int, event_type: str, **fields: Any) -> Event:
    known = Event.__struct_fields__
    return Event(**{name: value for name, value in recorded(number, event_type, **fields).items() if name in known})


def claim(start: int, end: int, status: ClaimStatus = "supported", *evidence: str) -> Claim:
    return Claim(
        event_id="e", start=start, end=end, text="", kind="value", status=status, reason="r", evidence=list(evidence)
    )


def test_a_conversation_has_messages_calls_and_interruptions_in_order(runs: Runs) -> None:
    run_id = misreporting_run(runs)
    builder, entries = built(*Run.load(run_id, runs.folder).events())
    main = [entry.kind for entry in entries if entry.session == builder.sessions[MAIN].number]
    # The error that ended the attempt and the start of the next one only repeat what is there already.
    assert main == ["user", "error", "retry", "agent", "tool", "compaction", "tool", "agent"]
    assert [entry.place for entry in entries if entry.session == 1] == list(range(1, 9))


def test_sessions_are_numbered_as_in_the_diagnosis_and_know_who_started_them(runs: Runs) -> None:
    run_id = misreporting_run(runs)
    run = Run.load(run_id, runs.folder)
    builder, _ = built(*run.events())
    numbers = {session.session_key: session.number for session in run.diagnosis.sessions}
    assert numbers == {MAIN: 1, HELPER: 2, OTHER: 3}
    assert {key: session.number for key, session in builder.sessions.items() if key} == numbers
    assert [session.parent for session in builder.sessions.values() if session.key] == [None, 1, None]


def test_a_call_and_its_result_are_one_entry_with_the_subagent_that_it_started(runs: Runs) -> None:
    run_id = misreporting_run(runs)
    events = list(Run.load(run_id, runs.folder).events())
    _, entries = built(*events)
    spawn, command = (entry for entry in entries if entry.kind == "tool" and entry.session == 1)
    assert spawn.child == HELPER
    assert spawn.end is not None and events[spawn.end - 1].event_type == "tool_output"
    assert command.is_failed and not spawn.is_failed
    assert spawn.model is not None and events[spawn.model - 1].payload["usage"]["input"] == 900


def test_a_session_knows_its_request_and_the_last_words_of_its_agent(runs: Runs) -> None:
    run_id = misreporting_run(runs)
    events = list(Run.load(run_id, runs.folder).events())
    builder, _ = built(*events)
    main = builder.sessions[MAIN]
    assert main.request is not None and main.answer is not None
    assert events[main.request - 1].payload["text"].startswith("Count the lines and")
    assert events[main.answer - 1].payload["text"] == ANSWER
    assert (main.messages, main.tool_calls, main.failures) == (3, 2, 2)


def test_a_message_that_only_requests_tools_is_not_the_answer() -> None:
    words = event(1, "message_end", payload={"role": "assistant", "text": "Done."})
    silent = event(2, "message_end", payload={"role": "assistant", "text": "", "tool_calls": [{"id": "1"}]})
    builder, entries = built(words, silent)
    assert [entry.kind for entry in entries] == ["agent", "agent"]
    assert builder.sessions["agent:main:main"].answer == 1


def test_a_result_without_its_call_and_a_call_without_its_result_are_entries() -> None:
    alone = {"tool_name": "exec", "tool_call_id": "a"}
    other = {"tool_name": "exec", "tool_call_id": "b"}
    _, entries = built(event(1, "tool_output", **alone), event(2, "tool_call", **other))
    assert [(entry.number, entry.end) for entry in entries] == [(1, 1), (2, None)]


def test_an_inner_call_is_marked_as_one() -> None:
    outer = {"tool_name": "tool_call", "tool_call_id": "call_5"}
    inner = {"tool_name": "memory_search", "tool_call_id": "tool_search_code:call_5:memory_search:1"}
    _, entries = built(event(1, "tool_call", **outer), event(2, "tool_call", **inner))
    assert [entry.is_inner for entry in entries] == [False, True]


def test_the_summary_that_a_compaction_has_left_is_no_message() -> None:
    text = "This session is being continued from a previous conversation that ran out of context."
    _, entries = built(event(1, "message_end", payload={"role": "user", "text": text}))
    assert [entry.kind for entry in entries] == ["compaction"]


def test_events_without_a_session_are_a_conversation_of_their_own() -> None:
    named = event(1, "message_end", payload={"role": "user", "text": "Hello"})
    unnamed = event(2, "message_end", payload={"role": "user", "text": "Hi"}, session_key=None)
    builder, entries = built(named, unnamed)
    assert [(session.key, session.number) for session in builder.sessions.values()] == [
        ("agent:main:main", 1),
        (None, 0),
    ]
    assert [entry.session for entry in entries] == [1, 0]


def test_a_text_is_split_into_its_claims_and_what_is_between_them() -> None:
    claims = [claim(4, 7, "contradicted", "evt_1"), claim(10, 12)]
    assert checked_text("The sum is 12.", claims) == [
        Piece("The "),
        Piece("sum", (claims[0],)),
        Piece(" is"),
        Piece(" 1", (claims[1],)),
        Piece("2."),
    ]


def test_claims_that_overlap_are_one_piece_with_the_worst_status() -> None:
    fine, wrong = claim(0, 8, "supported", "evt_1"), claim(4, 12, "contradicted", "evt_2")
    [piece, rest] = checked_text("All tests pass", [wrong, fine])
    assert (piece.text, piece.status, piece.evidence) == ("All tests pa", "contradicted", "evt_2")
    assert (rest.text, rest.status) == ("ss", None)


def test_claims_outside_of_a_shortened_text_are_left_out() -> None:
    assert checked_text("Done", [claim(10, 20), claim(2, 99)]) == [Piece("Do"), Piece("ne", (claim(2, 99),))]
