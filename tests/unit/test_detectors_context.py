"""What an agent knows: its memory, its window, what a compaction leaves of it, and what all that costs."""

from __future__ import annotations

from typing import Any

import pytest
from story import Story
from support import Fields

from critiqor.diagnosis.detectors.compaction_loss import CompactionLoss
from critiqor.diagnosis.signals.errors import error_kind
from critiqor.model import Scope
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Message, Moment

# Memory.


def found(story: Story, query: str, text: str) -> Story:
    """A lookup in memory as the recorder tells of it: the call, its result, and the same once more as a lookup."""
    call_id = story.begins("memory_search", {"query": query})
    result = {"content": [{"type": "text", "text": text}]}
    story.ends("memory_search", call_id, result)
    return story.event(
        "memory_event",
        layer="tool_hooks",
        tool_name="memory_search",
        tool_call_id=call_id,
        payload={"query": query, "lookup": "found", "result": result},
    )


def test_lookups_that_fail_are_found() -> None:
    finding = Story().remembers("plan", "error").says("I do not know.").finishes().only("memory_failure")
    assert (finding.cause, finding.severity) == ("memory_failure:failing", "medium")


def test_failed_lookup_that_a_later_one_makes_up_for_is_none() -> None:
    assert Story().remembers("plan", "error").remembers("plan").says("Friday.").finishes().types() == []


def test_lookups_that_never_find_anything_are_found() -> None:
    story = Story().remembers("colour", "empty").remembers("paint", "empty").remembers("fence", "empty")
    finding = story.says("You wanted it green.").finishes().only("memory_failure")
    assert (finding.cause, finding.occurrences) == ("memory_failure:empty", 3)


@pytest.mark.parametrize("lookups", [["empty"], ["empty", "empty"], ["empty", "empty", "empty", "found"]])
def test_lookups_that_may_well_find_nothing_are_none(lookups: list[str]) -> None:
    story = Story()
    for number, lookup in enumerate(lookups):
        story.remembers(f"question {number}", lookup)
    assert story.says("Here.").finishes().types() == []


def test_heartbeats_that_ask_memory_in_vain_are_none() -> None:
    story = Story()
    for number in range(10):
        story.turns_to(f"beat-{number}").starts(trigger="heartbeat").user("heartbeat").model()
        story.remembers("open tasks", "empty").model().says("NO_REPLY").finishes().waits(1_800_000)
    assert story.types() == []


def test_lookup_with_a_tool_that_does_not_exist_is_told_once() -> None:
    story = Story()
    call_id = story.begins("memory_get", {"key": "plan"})
    story.ends("memory_get", call_id, "", error="Tool memory_get not found")
    about: Fields = {"tool_name": "memory_get", "tool_call_id": call_id}
    story.event("memory_event", layer="tool_hooks", **about, payload={"key": "plan", "lookup": "error"})
    assert story.says("There is no such tool.").finishes().types() == ["tool_misuse"]


def test_memory_that_no_longer_knows_what_it_knew_is_found() -> None:
    story = Story().remembers("birthday").turns_to("run-2").remembers("birthday", "empty").says("No idea.").finishes()
    finding = story.only("memory_failure")
    assert finding.cause == "memory_failure:lost"
    assert finding.first_bad_step == story.events[1].event_id


def test_memory_that_was_written_meanwhile_may_have_forgotten() -> None:
    story = Story().remembers("birthday").calls("write", {"path": "memory/2026-11-15.md", "content": ""})
    assert story.remembers("birthday", "empty").says("It is gone now.").finishes().types() == []


def test_other_session_does_not_lose_what_this_one_knew() -> None:
    story = Story().remembers("birthday").turns_to("run-2", "agent:other:main").remembers("birthday", "empty")
    assert story.says("No idea.").finishes().types() == []


def test_same_lookup_again_and_again_is_found_once() -> None:
    story = Story()
    for _ in range(4):
        found(story, "plan", "paint the fence on Friday, with two coats of Juniper 314")
    story.says("Paint the fence on Friday, with two coats.").finishes()
    finding = story.only("memory_failure")
    assert (finding.cause, finding.occurrences) == ("memory_failure:repeated", 4)
    assert story.types() == ["memory_failure"], "the loop of calls is the same thing"


def test_lookups_of_something_untold_are_not_taken_for_the_same() -> None:
    story = Story()
    for _ in range(5):
        story.event("memory_event", payload={"lookup": "found"})
    assert story.says("Here.").finishes().types() == []


ANSWERS = [
    ("supplier", "the supplier is Northwind Trading in Rotterdam, contract 88-1204, delivery Thursday"),
    ("invoice", "invoice 2291 was settled by Margarethe through Sparkasse on Tuesday morning"),
    ("warehouse", "warehouse Halle Sieben holds eighteen pallets of cardboard and fourteen of plywood"),
]
AWAY = "I would simply ask somebody in the office about all of this, they know it much better than me. " * 2


def test_answers_of_memory_that_are_never_used_are_found() -> None:
    story = Story().user("what do we know about our orders?")
    for query, text in ANSWERS:
        found(story, query, text)
    finding = story.says(AWAY).finishes().only("memory_failure")
    assert (finding.cause, finding.severity) == ("memory_failure:unread", "low")


@pytest.mark.parametrize(
    "use",
    [
        lambda story: story.says(f"Northwind delivers on Thursday. {AWAY}"),
        lambda story: story.calls("write", {"path": "orders.md", "content": "northwind: 88-1204"}).says(AWAY),
        lambda story: story.says("NO_REPLY"),
        lambda story: story.says("Noted."),
    ],
    ids=["in the answer", "in a call", "nothing to say", "hardly anything to say"],
)
def test_answers_of_memory_that_are_used_or_not_needed_are_none(use: Any) -> None:
    story = Story().user("what do we know about our orders?")
    for query, text in ANSWERS:
        found(story, query, text)
    assert use(story).finishes().types() == []


def test_one_lookup_that_found_the_wrong_thing_is_none() -> None:
    assert found(Story(), *ANSWERS[0]).says(AWAY).finishes().types() == []


PAGES = [("https://example.com/a", "alpha " * 60), ("https://example.com/b", "beta " * 60), ("c", "gamma " * 60)]


def reading(story: Story) -> Story:
    for url, text in PAGES:
        story.calls("web_fetch", {"url": url}, text)
    return story


NOTE = {"path": "memory/2026-11-15.md", "content": "alpha, beta, gamma"}


def test_work_that_is_done_again_without_a_look_into_memory_is_found() -> None:
    story = reading(Story().starts()).calls("write", NOTE).says("Alpha, beta and gamma.").finishes()
    reading(story.turns_to("run-2").starts().user("what was it again?")).says("Alpha, beta and gamma.").finishes()
    finding = story.only("memory_failure")
    assert (finding.cause, finding.severity, finding.occurrences) == ("memory_failure:redone", "low", 3)
    assert finding.agent_run_id == "run-2"


@pytest.mark.parametrize(
    "later",
    [
        lambda story: reading(story.starts().remembers("pages")),
        lambda story: reading(story.starts().calls("read", {"path": "MEMORY.md"}, "look at the pages")),
        lambda story: reading(story.starts(trigger="cron")),
        lambda story: story.starts().calls("web_fetch", {"url": PAGES[0][0]}, PAGES[0][1]),
        lambda story: reading(story.event("before_reset").turns_to("run-3").starts()),
        lambda story: reading(story.event("session_end", payload={"reason": "daily"}).turns_to("run-3").starts()),
        lambda story: reading(story.turns_to("run-3", "agent:other:main").starts()),
    ],
    ids=["looked", "read the file", "by the clock", "one page", "begun anew", "a new day", "another session"],
)
def test_work_that_is_done_again_for_a_reason_is_none(later: Any) -> None:
    story = reading(Story().starts()).calls("write", NOTE).says("Alpha, beta and gamma.").finishes()
    later(story.turns_to("run-2")).says("Alpha, beta and gamma.").finishes()
    assert story.types() == []


def test_work_that_was_never_noted_may_be_done_again() -> None:
    story = reading(Story().starts()).says("Alpha, beta and gamma.").finishes()
    reading(story.turns_to("run-2").starts()).says("Alpha, beta and gamma.").finishes()
    assert story.types() == []


# The window.


def test_request_over_the_window_is_found_with_the_results_that_filled_it() -> None:
    story = Story().model(input=20_000, budget=32_000).calls("exec", {"command": "cat log"}, "x" * 24_000)
    finding = story.model(input=33_000, budget=32_000).says("Nothing in it.").finishes().only("context_pollution")
    assert (finding.severity, finding.occurrences) == ("high", 1)
    assert "33000 of 32000 tokens" in finding.title
    assert "`exec` 24 KB" in finding.explanation
    assert finding.causal_chain[-1].relation == "exhausted"


def test_cached_tokens_fill_the_window_as_well() -> None:
    usage = {"input": 1000, "cacheRead": 120_000, "cacheWrite": 10_000, "output": 5}
    assert Story().model(usage=usage).says("Hello.").finishes().only("context_pollution").severity == "high"


def test_window_that_is_nearly_full_at_the_end_is_found() -> None:
    finding = Story().model(input=120_000).says("Hello.").finishes().only("context_pollution")
    assert (finding.severity, finding.title) == ("medium", "The context window was 94% full")


def test_window_that_was_compacted_in_time_is_none() -> None:
    story = Story().model(input=120_000).compacts().model(input=20_000).says("Hello.").finishes()
    assert story.types() == []


def test_half_full_window_is_none() -> None:
    assert Story().model(input=64_000).says("Hello.").finishes().types() == []


def test_budget_that_only_the_request_tells_counts() -> None:
    story = Story().asks(contextTokenBudget=32_000).model(input=40_000, budget=None).says("Hello.").finishes()
    assert "40000 of 32000" in story.only("context_pollution").title


def test_budget_of_one_request_is_not_that_of_the_next() -> None:
    story = Story().asks(contextTokenBudget=32_000).model(input=1000, budget=None)
    story.asks().model(input=40_000, budget=None)
    assert story.says("Hello.").finishes().types() == []


def test_request_that_was_refused_made_smaller_and_sent_again_weighs_less() -> None:
    story = Story().model(error="prompt is too long: 210000 tokens > 200000 maximum").compacts().model()
    assert story.says("Hello.").finishes().only("context_pollution").severity == "medium"


def test_giant_result_is_found_without_a_budget() -> None:
    story = Story().model(budget=None).calls("read", {"path": "big.log"}, "x" * 150_000).model(budget=None)
    finding = story.says("Nothing in it.").finishes().only("context_pollution")
    assert (finding.severity, finding.title) == ("low", "`read` put 150 KB into the context window at once")


def test_giant_result_of_which_little_was_passed_on_is_none() -> None:
    story = Story().model(requestPayloadBytes=40_000).calls("exec", {"command": "cat big.log"}, "x" * 150_000)
    assert story.model(requestPayloadBytes=57_000).says("Nothing in it.").finishes().types() == []


def test_size_of_a_result_that_was_cut_for_the_record_is_its_true_size() -> None:
    cut = {"content": [{"cut": True, "size": 500_000, "excerpt": "xx", "digest": "d"}]}
    story = Story().model(budget=None).calls("read", {"path": "big.log"}, cut).model(budget=None).says("Ok.").finishes()
    assert "500 KB" in story.only("context_pollution").title


@pytest.mark.parametrize("number", [1e308, 10**400, -5, float("nan"), float("inf"), "many", True, None, [], {}])
def test_absurd_usage_fills_no_window(number: Any) -> None:
    usage = {"input": number, "output": number, "cost": {"total": number}}
    story = Story().model(usage=usage, contextTokenBudget=number, requestPayloadBytes=number, timeToFirstByteMs=number)
    story.model(usage=usage).says("Hello.").finishes()
    assert story.types() == []
    cost = story.diagnosis().cost_analysis
    assert (cost.model_calls, cost.input_tokens, cost.cost_usd) == (2, 0, None)


def test_chat_without_hooks_has_no_window_to_fill() -> None:
    story = Story().user("hello").asks().model(budget=None, usage=None).says("Hello.").finishes()
    diagnosis = story.diagnosis(sources={"hooks": False, "agent_events": True})
    assert diagnosis.failure_analysis.findings == []
    assert (diagnosis.trust_score, diagnosis.confidence_score) == (100, 90)
    assert diagnosis.context_analysis.peak_saturation is None
    assert diagnosis.cost_analysis.model_calls_without_usage == 1


# Compaction.

NAMES = ("a.txt", "b.txt", "c.txt")


def three_reads(story: Story) -> Story:
    for name in NAMES:
        story.calls("read", {"path": name}, f"{name} is a letter")
    return story


def test_facts_that_are_looked_up_again_after_a_compaction_are_found() -> None:
    story = three_reads(three_reads(Story()).compacts()).says("They are letters.").finishes()
    finding = story.only("compaction_loss")
    assert (finding.occurrences, finding.severity) == (3, "medium")
    assert [step.relation for step in finding.causal_chain] == [None, "precedes", "caused"]


def test_compaction_between_two_agent_runs_of_a_session_counts() -> None:
    story = three_reads(Story().starts()).says("They are letters.").finishes().compacts()
    three_reads(story.turns_to("run-2").starts()).says("They are letters.").finishes()
    assert story.only("compaction_loss").agent_run_id == "run-2"


def test_repeated_message_of_an_overlapping_agent_run_is_found_in_a_long_session() -> None:
    """Agent runs are observed one after the other: what the second one says belongs before what the first says last."""
    wish = "Please write the report in French, with all sources at the end."
    detector = CompactionLoss()

    def says(order: int, text: str, *, is_user: bool) -> None:
        detector.observe(
            Message(order=order, event_id=f"evt_{order}", is_user=is_user, text=text, size=len(text)),
        )

    first, second = AgentRun(Scope("s", "run-1")), AgentRun(Scope("s", "run-2"))
    first.number, second.number = 1, 500
    detector.begin_run(first)
    says(2, wish, is_user=True)
    says(4, "I will do that, and I will read all the files first.", is_user=False)
    end = Moment(order=6, event_id="evt_6", event_type="compaction_end", status="ok", error=None, payload={})
    detector.observe(end)
    for order in range(8, 600, 2):
        says(order, "ok", is_user=order % 4 == 0)
    detector.begin_run(second)
    says(501, wish, is_user=True)
    [draft] = detector.findings()
    assert set(draft.evidence) == {"evt_2", "evt_6", "evt_501"}


@pytest.mark.parametrize(
    "after",
    [
        lambda story: story.calls("read", {"path": "a.txt"}, "a.txt is a letter"),
        lambda story: three_reads(story.calls("edit", {"path": "a.txt", "text": "x"}, "written")),
        lambda story: [story.calls("read", {"path": name}, f"{name} is new") for name in NAMES][-1],
        lambda story: three_reads(story.event("before_reset").turns_to("run-2").starts()),
        lambda story: three_reads(story.turns_to("run-2", "agent:other:main").starts()),
    ],
    ids=["one look", "after a change", "another answer", "begun anew", "another session"],
)
def test_looking_again_after_a_compaction_for_a_reason_is_none(after: Any) -> None:
    story = three_reads(Story()).compacts()
    after(story).says("They are letters.").finishes()
    assert "compaction_loss" not in story.types()


@pytest.mark.parametrize("how", [{"compactedCount": 0}, {"completed": False}])
def test_compaction_that_removed_nothing_cost_nothing(how: dict[str, Any]) -> None:
    story = three_reads(three_reads(Story()).compacts(**how)).says("They are letters.").finishes()
    assert "compaction_loss" not in story.types()
    assert story.diagnosis().context_analysis.compactions == 0


def test_compaction_that_was_begun_and_not_finished_cost_nothing() -> None:
    story = three_reads(three_reads(Story()).event("compaction_start")).says("They are letters.").finishes()
    assert "compaction_loss" not in story.types()


def test_habit_from_before_the_compaction_is_not_its_fault() -> None:
    story = three_reads(three_reads(Story()))
    three_reads(story.compacts()).says("They are letters.").finishes()
    assert "compaction_loss" not in story.types()


def test_action_that_is_done_again_after_a_compaction_is_found() -> None:
    story = Story().calls("send_email", {"to": "ada"}, "sent").compacts()
    story.calls("send_email", {"to": "ada"}, "sent").says("It went out.").finishes()
    assert story.only("compaction_loss").occurrences == 1


ORDER = "Please write the report in British English and without any tables."


def test_user_who_has_to_repeat_an_instruction_after_a_compaction_is_found() -> None:
    story = Story().user(ORDER).says("I did so.").compacts().user(ORDER).says("Sorry.").finishes()
    assert "user had to repeat" in story.only("compaction_loss").title


@pytest.mark.parametrize(
    "talk",
    [
        lambda story: story.user(ORDER).compacts().user(ORDER).says("Here."),
        lambda story: story.user("go on").says("Ok.").compacts().user("go on").says("Ok."),
        lambda story: story.user(ORDER).says("a").user(ORDER).says("b").compacts().user(ORDER).says("c"),
        lambda story: story.user(ORDER).says("a").compacts().event("before_reset").turns_to("2").user(ORDER).says("c"),
        lambda story: (
            story.starts(trigger="heartbeat")
            .user(ORDER)
            .says("NO_REPLY")
            .compacts()
            .turns_to("run-2")
            .starts(trigger="heartbeat")
            .user(ORDER)
            .says("NO_REPLY")
        ),
    ],
    ids=["sent once more", "nothing to lose", "a habit", "begun anew", "heartbeat"],
)
def test_same_words_after_a_compaction_for_a_reason_are_none(talk: Any) -> None:
    story = Story()
    assert "compaction_loss" not in talk(story).finishes().types()


def test_agent_that_asks_its_user_once_more_is_found() -> None:
    question = "Which of the two databases should I migrate first, orders or customers?"
    story = Story().says(question).user("orders, please").compacts().says(question).finishes()
    assert "asked the user the same question again" in story.only("compaction_loss").title


def test_instruction_that_is_broken_after_a_compaction_is_found() -> None:
    story = Story().user("Tidy up, but never delete config/prod.yml please.").runs("rm -rf build", "").compacts()
    story.runs("rm -rf config/prod.yml", "").says("All tidy now.").finishes()
    finding = story.only("compaction_loss")
    assert finding.cause == "compaction_loss:instructions:contradicted"
    assert finding.causal_chain[-1].relation == "contradicted"


@pytest.mark.parametrize(
    "after",
    [
        lambda story: story.runs("cat config/prod.yml", "port: 1"),
        lambda story: story.user("you may delete config/prod.yml now").runs("rm config/prod.yml", ""),
        lambda story: story.runs("rm config/test.yml", ""),
    ],
    ids=["only read", "allowed", "another file"],
)
def test_instruction_that_is_kept_or_lifted_is_none(after: Any) -> None:
    story = Story().user("Tidy up, but never delete config/prod.yml please.").says("I will not.").compacts()
    assert "compaction_loss" not in after(story).says("Here it is.").finishes().types()


def test_instruction_that_was_broken_before_the_compaction_is_not_its_fault() -> None:
    story = Story().user("Never delete config/prod.yml.").runs("rm config/prod.yml", "").compacts()
    assert "compaction_loss" not in story.runs("rm config/prod.yml", "").says("Gone.").finishes().types()


# Cost.


def test_spend_on_wasted_steps_is_found_with_the_steps() -> None:
    story = Story()
    for _ in range(12):
        story.model(input=50_000).calls("read", {"path": "a.txt"}, "apples")
    finding = story.only("cost_explosion")
    assert finding.severity == "high"
    assert finding.cause == "cost_explosion:wasted"
    calls = {event.event_id for event in story.events if event.event_type == "tool_call"}
    assert set(finding.evidence) <= calls


def test_cause_of_waste_is_the_same_whatever_else_was_found() -> None:
    loop = Story()
    for _ in range(12):
        loop.model(input=50_000).calls("read", {"path": "a.txt"}, "apples")
    both = Story()
    for _ in range(12):
        both.model(input=50_000).calls("read", {"path": "a.txt"}, "apples")
    for _ in range(6):
        both.model(input=50_000).fails("exec", {"command": "make"}, "make: error 2")
    assert {"tool_loop", "repeated_tool_failure"} <= set(both.types())
    assert loop.only("cost_explosion").cause == both.only("cost_explosion").cause


def test_spend_that_bought_something_is_none() -> None:
    story = Story()
    for number in range(12):
        story.model(input=50_000).calls("read", {"path": f"{number}.txt"}, f"apples {number}")
    assert "cost_explosion" not in story.says("Apples everywhere.").finishes().types()


def test_small_waste_is_none() -> None:
    story = Story()
    for _ in range(6):
        story.model(input=2_000).calls("read", {"path": "a.txt"}, "apples")
    assert "cost_explosion" not in story.types()


def test_waste_in_dollars_counts_where_tokens_are_few_and_dear() -> None:
    story = Story()
    for _ in range(6):
        story.model(input=5_000, cost=0.4).calls("read", {"path": "a.txt"}, "apples")
    assert "$2.00" in story.only("cost_explosion").title


def test_giant_result_that_is_sent_again_with_every_request_is_found() -> None:
    story = Story().model(budget=None).calls("read", {"path": "big.log"}, "x" * 400_000)
    for number in range(20):
        story.model(input=120_000, budget=None).calls("edit", {"path": f"{number}.txt"}, f"written {number}")
    finding = story.says("All of them are written.").finishes().only("cost_explosion")
    assert (finding.cause, finding.severity) == ("cost_explosion:carried", "medium")


def test_giant_result_that_a_compaction_removed_is_not_carried() -> None:
    story = Story().model(budget=None).calls("read", {"path": "big.log"}, "x" * 400_000)
    story.model(input=120_000, budget=None).compacts()
    for number in range(20):
        story.model(input=120_000, budget=None).calls("edit", {"path": f"{number}.txt"}, f"written {number}")
    assert "cost_explosion" not in story.says("All of them are written.").finishes().types()


def test_usage_told_only_at_the_end_counts_as_waste_too() -> None:
    story = Story()
    for number in range(1, 6):
        story.model(usage=None, turn=number).calls("read", {"path": "a.txt"}, "apples")
    recovered = [{"turn": number, "usage": {"input": 100_000, "output": 1}} for number in range(1, 6)]
    story.says("Apples.").finishes(recovered_usage=recovered)
    diagnosis = story.diagnosis()
    assert diagnosis.cost_analysis.input_tokens == 500_000
    assert diagnosis.cost_analysis.model_calls_without_usage == 0
    assert story.only("cost_explosion").severity == "high"


@pytest.mark.parametrize("word", ["a", "http", "1,", "'"])
def test_a_giant_word_in_an_error_keeps_nobody_busy(word: str) -> None:
    kind = error_kind(word * 250_000)
    assert len(kind) <= 160


def invited(story: Story, number: int) -> Story:
    for name in ("ida", "omar", "greta"):
        story.calls("mail_send", {"to": f"{name}@x.example", "text": "Dinner at 8"}, f'{{"id": "{name}-{number}"}}')
    return story


def test_action_that_gets_a_new_id_each_time_is_the_same_action_after_a_compaction() -> None:
    story = invited(invited(Story().user("Invite Ida, Omar and Greta."), 1).compacts(), 2).says("Sent.").finishes()
    assert story.only("compaction_loss").occurrences == 3


def test_commands_that_are_repeated_after_a_compaction_are_found() -> None:
    def imported(story: Story) -> Story:
        for number in range(3):
            story.runs(f"bin/import batch{number}.csv", f"{number}87 rows inserted")
        return story

    story = imported(imported(Story().user("Import the batches.")).compacts()).says("Imported.").finishes()
    assert story.only("compaction_loss").occurrences == 3


@pytest.mark.parametrize(
    "summary",
    [
        "The conversation history before this point was compacted into the following summary:\n\n<summary>…</summary>",
        "This session is being continued from a previous conversation that ran out of context.",
        "[Context compacted] Task: invite the guests.",
    ],
)
def test_summary_that_replaces_the_history_is_a_compaction_and_no_request(summary: str) -> None:
    story = invited(Story().user("Invite Ida, Omar and Greta."), 1).user(summary)
    assert invited(story, 2).says("Sent.").finishes().only("compaction_loss").occurrences == 3


def test_request_that_speaks_of_a_conversation_is_no_compaction() -> None:
    story = invited(Story().user("Invite Ida, Omar and Greta."), 1)
    story.user("The conversation with Ida went well. Send the invitations again.")
    assert "compaction_loss" not in invited(story, 2).says("Sent.").finishes().types()


def reads_pieces(tokens: int, pieces: int = 9) -> Story:
    story = Story().user("How many ERROR lines are in the logs?").model(input=8_000, budget=None)
    for number in range(1, pieces):
        story.runs(f"cat app.log.{number}", f"2026-10-0{number} INFO a line of log number {number}")
        story.model(input=8_000 + number * tokens, budget=None)
    return story


def test_large_file_that_is_read_piece_by_piece_is_too_expensive() -> None:
    finding = reads_pieces(118_000).only("cost_explosion")
    assert finding.severity == "medium"
    assert "8 large results" in finding.title


def test_small_pieces_are_not_too_expensive() -> None:
    assert reads_pieces(4_000).types() == []


def test_two_large_results_are_not_too_expensive() -> None:
    assert reads_pieces(118_000, pieces=3).types() == []


def asks_agents(request: str, answer: str, tokens: int) -> Story:
    story = Story().user(request).model()
    for number in range(6):
        result = {"status": "done", "tokens": tokens + number, "result": f"{answer} {number}"}
        story.calls("sessions_spawn", {"task": f"As expert {number}: study rooms.txt"}, result)
    return story.model()


def test_costly_agents_for_a_short_answer_are_too_expensive() -> None:
    story = asks_agents("Which floor is room Curlew on?", "Floor 3, says agent", 50_000)
    assert story.only("cost_explosion").occurrences == 6


def test_agents_that_return_work_are_worth_their_price() -> None:
    story = asks_agents("Which market should we enter?", "A long report on one market. " * 20, 50_000)
    assert "cost_explosion" not in story.types()


def test_agents_that_cost_little_are_worth_their_price() -> None:
    assert "cost_explosion" not in asks_agents("Which floor is it on?", "Floor 3", 900).types()


def overflows(times: int) -> Story:
    story = Story().user("When did the first error happen?")
    for number in range(times):
        story.runs(f"cat logs/{number}.log", "GET /v1/orders 200\n" * 200)
        story.event("error", status="error", error="Context length exceeded: 214,118 tokens > 200,000 maximum.")
    return story.runs("grep -m1 error logs/0.log", "12:00 error").says("At 12:00.").finishes()


def test_window_that_overflows_again_and_again_is_found() -> None:
    assert overflows(3).only("context_pollution").severity == "medium"


def test_window_that_overflowed_once_before_the_agent_searched_instead_is_fine() -> None:
    assert "context_pollution" not in overflows(1).types()
