"""A run as spans, read by OpenTelemetry's own messages: parents, names and values follow the conventions."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from diagnosed import diagnosis, finding
from hypothesis import given
from hypothesis import strategies as st
from otlp import ReadSpan, ReadTrace
from story import START, Story

from critiqor.diagnosis import FAILURE_TYPES
from critiqor.exporters.otlp import otlp
from critiqor.exporters.otlp.attributes import MAX_CONTENT
from critiqor.exporters.otlp.evaluations import EVALUATION
from critiqor.exporters.otlp.span_builder import MAX_HELD, build_spans
from critiqor.model import Diagnosis, Event, Metadata, Readiness, SessionDiagnosis, Timestamps, iso_from_ms
from critiqor.model.record import RunHead
from critiqor.model.report import Recorded

CLIENT, INTERNAL, ERROR = 3, 1, 2
SECRETS = ("the question", "the answer", "make all", "it says so", "no such target")


def head(run_id: str = "run_001", created: int = START) -> RunHead:
    stamps = Timestamps(created_at=iso_from_ms(created))
    return RunHead(run_id=run_id, status="COMPLETED", lifecycle=[], timestamps=stamps, metadata=Metadata())


def recorded(
    story: Story | list[Event],
    concluded: Diagnosis | None = None,
    *,
    content: bool = False,
    moments: dict[str, int] | None = None,
) -> Recorded:
    events = story.events if isinstance(story, Story) else story
    return Recorded(head(), events, concluded, moments or {}, FAILURE_TYPES, "1.2.3", content)


def read(
    story: Story | list[Event],
    concluded: Diagnosis | None = None,
    *,
    content: bool = False,
    moments: dict[str, int] | None = None,
) -> ReadTrace:
    return ReadTrace(b"".join(otlp.report(recorded(story, concluded, content=content, moments=moments))))


def talk() -> Story:
    """One agent run: a question, a model call, a tool that fails, an answer."""
    story = Story().event("agent_start", payload={"attempt": 1, "agent_id": "main", "trigger": "user"})
    story.user("the question").asks(provider="google", model="gemini").model(
        provider="google", model="gemini-2", timeToFirstByteMs=250, errorCategory=None
    )
    asked = [{"id": "call_1", "name": "exec"}]
    story.event("message_end", payload={"role": "assistant", "text": "", "tool_calls": asked, "stop_reason": "toolUse"})
    story.fails("exec", {"command": "make all"}, "exit code 2: no such target", "it says so")
    return story.asks(model="gemini").model(input=5, output=7).says("the answer").finishes()


def test_an_agent_run_is_a_span_and_its_calls_are_inside() -> None:
    trace = read(talk())
    assert trace.tree() == [
        ["invoke_agent main", ["chat gemini"], ["execute_tool exec"], ["chat gemini"]],
        ["run run_001"],
    ]
    assert trace.resource["service.name"] == trace.resource["openinference.project.name"] == "openclaw_agent"
    assert trace.scope == ("critiqor", "1.2.3")
    kinds = {span.name.split()[0]: span.kind for span in trace.spans}
    assert kinds == {"run": INTERNAL, "invoke_agent": INTERNAL, "execute_tool": INTERNAL, "chat": CLIENT}


def test_names_are_those_of_both_conventions() -> None:
    trace = read(talk())
    agent, chat, tool = trace.named("invoke_agent main"), trace.all("chat gemini")[0], trace.named("execute_tool exec")
    expected = {"gen_ai.operation.name": "invoke_agent", "openinference.span.kind": "AGENT", "gen_ai.agent.id": "main"}
    assert expected.items() <= agent.attributes.items()
    assert (
        chat.attributes
        | {
            "gen_ai.operation.name": "chat",
            "openinference.span.kind": "LLM",
            "gen_ai.provider.name": "gcp.gemini",
            "llm.provider": "google",
            "gen_ai.request.model": "gemini",
            "gen_ai.response.model": "gemini-2",
            "llm.model_name": "gemini-2",
            "gen_ai.usage.input_tokens": 1000,
            "gen_ai.usage.output_tokens": 20,
            "llm.token_count.prompt": 1000,
            "llm.token_count.completion": 20,
            "llm.token_count.total": 1020,
            "llm.cost.total": 0.001,
            "gen_ai.response.time_to_first_chunk": 0.25,
            "gen_ai.response.finish_reasons": ["tool_call"],
            "llm.finish_reason": "tool_call",
        }
        == chat.attributes
    )
    assert (
        tool.attributes
        | {
            "gen_ai.operation.name": "execute_tool",
            "openinference.span.kind": "TOOL",
            "gen_ai.tool.name": "exec",
            "tool.name": "exec",
            "gen_ai.tool.call.id": "call_1",
        }
        == tool.attributes
    )
    for span in (agent, chat, tool):
        assert span.attributes["gen_ai.conversation.id"] == span.attributes["session.id"] == "agent:main:main"


@pytest.mark.parametrize(
    ("recorded_as", "expected"),
    [
        ("stop", "stop"),
        ("toolUse", "tool_call"),
        ("length", "length"),
        ("error", "error"),
        ("aborted", "aborted"),  # not defined by the conventions, which allow others
        ("max_tokens", "length"),
        ("tool_calls", "tool_call"),
    ],
)
def test_finish_reasons_have_the_names_of_the_conventions(recorded_as: str, expected: str) -> None:
    story = Story().starts().asks(model="m").model(model="m")
    story.event("message_end", payload={"role": "assistant", "text": "so", "stop_reason": recorded_as})
    trace = read(story, content=True)
    chat, agent = trace.named("chat m"), trace.named("invoke_agent openclaw_agent")
    assert (chat.attributes["gen_ai.response.finish_reasons"], chat.attributes["llm.finish_reason"]) == (
        [expected],
        expected,
    )
    for span in (chat, agent):
        [message] = msgspec.json.decode(span.attributes["gen_ai.output.messages"])
        assert message["finish_reason"] == expected


def test_tokens_from_a_cache_are_added_to_the_input_tokens() -> None:
    usage = {"input": 10, "output": 1, "cacheRead": 200, "cacheWrite": 30}
    chat = read(Story().starts().event("token_usage", payload={"model": "m", "usage": usage})).named("chat m")
    assert chat.attributes["gen_ai.usage.input_tokens"] == chat.attributes["llm.token_count.prompt"] == 240
    assert chat.attributes["gen_ai.usage.cache_read.input_tokens"] == 200
    assert chat.attributes["llm.token_count.prompt_details.cache_write"] == 30
    assert chat.attributes["llm.token_count.total"] == 241


def test_times_are_those_of_the_events_in_nanoseconds() -> None:
    trace = read(Story(start=START).starts().calls("exec", ms=50).finishes())
    tool = trace.named("execute_tool exec")
    assert (tool.start_ns, tool.end_ns) == ((START + 2000) * 1_000_000, (START + 3000) * 1_000_000)
    root = trace.named("run run_001")
    assert (root.start_ns, root.end_ns) == ((START + 1000) * 1_000_000, (START + 4000) * 1_000_000)


def test_content_is_exported_only_with_the_option() -> None:
    without = b"".join(otlp.report(recorded(talk()))).decode()
    assert [secret for secret in SECRETS if secret in without] == []
    trace = read(talk(), content=True)
    agent, tool = trace.named("invoke_agent main"), trace.named("execute_tool exec")
    assert (agent.attributes["input.value"], agent.attributes["output.value"]) == ("the question", "the answer")
    assert msgspec.json.decode(tool.attributes["gen_ai.tool.call.arguments"]) == {"command": "make all"}
    assert tool.attributes["output.value"] == "it says so"
    assert tool.of("exception") == [{"exception.type": "_OTHER", "exception.message": "exit code 2: no such target"}]
    assert msgspec.json.decode(agent.attributes["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "the question"}]}
    ]
    assert msgspec.json.decode(agent.attributes["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "the answer"}], "finish_reason": "stop"}
    ]
    [first, last] = trace.all("chat gemini")
    assert msgspec.json.decode(first.attributes["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "call_1", "name": "exec"}],
            "finish_reason": "tool_call",
        }
    ]
    assert first.attributes["llm.output_messages.0.message.tool_calls.0.tool_call.function.name"] == "exec"
    assert last.attributes["llm.output_messages.0.message.content"] == "the answer"


def test_an_answer_that_is_reported_before_the_end_of_its_call_belongs_to_it() -> None:
    """The terminal UI of OpenClaw 2026.6.1 reports answers in this order."""
    story = Story().starts().asks(model="m").says("early").model(model="m").asks(model="m").model(model="m").finishes()
    [first, second] = read(story, content=True).all("chat m")
    assert first.attributes["output.value"] == "early"
    assert "output.value" not in second.attributes


def test_an_error_is_a_status_and_an_exception_whose_message_is_content() -> None:
    story = Story().starts().asks(model="m").model(model="m", error="401 wrong key", errorCategory="auth")
    chat = read(story).named("chat m")
    assert (chat.status, chat.message, chat.attributes["error.type"]) == (ERROR, "", "auth")
    assert chat.of("exception") == [{"exception.type": "auth"}]
    with_content = read(story, content=True).named("chat m")
    assert with_content.message == "401 wrong key"
    story = Story().starts()
    result = {"result": {}, "exit_code": 3}
    story.event("tool_output", tool_name="exec", tool_call_id="c", status="error", error="no", payload=result)
    assert read(story).named("execute_tool exec").attributes["error.type"] == "exit_code_3"


def test_an_exit_code_makes_the_whole_run_fail() -> None:
    root = read(Story().starts().finishes().process(137)).named("run run_001")
    assert (root.status, root.attributes["process.exit.code"], root.attributes["error.type"]) == (
        ERROR,
        137,
        "exit_code_137",
    )
    assert read(Story().starts().finishes().process(0)).named("run run_001").status == 0


def test_a_call_that_another_call_made_is_inside_it() -> None:
    story = Story().starts()
    outer = story.begins("tool_call", call_id="call_1")
    inner = story.begins("memory_search", call_id="tool_search_code:call_1:memory_search:1")
    other = story.begins("read", call_id="call_2", parent_tool_call_id="call_1")
    story.ends("read", other).ends("memory_search", inner).ends("tool_call", outer).finishes()
    assert read(story).tree()[0] == [
        "invoke_agent openclaw_agent",
        ["execute_tool tool_call", ["execute_tool memory_search"], ["execute_tool read"]],
    ]


def test_a_subagent_is_inside_the_call_that_started_it() -> None:
    child = "agent:main:subagent:1"
    story = Story().starts()
    call = story.begins("sessions_spawn")
    story.ends("sessions_spawn", call, {"content": [], "details": {"childSessionKey": child, "runId": "run-2"}})
    story.turns_to("run-2", child).starts(trigger="subagent").calls("read").finishes()
    story.turns_to("run-1", "agent:main:main").finishes()
    agent = "invoke_agent openclaw_agent"
    trace = read(story)
    assert trace.tree()[0] == [agent, ["execute_tool sessions_spawn", [agent, ["execute_tool read"]]]]
    assert len({span.trace_id for span in trace.spans if span.name != "run run_001"}) == 1


def test_each_agent_run_is_a_trace_that_is_linked_to_the_run() -> None:
    story = Story()
    for number in range(3):
        story.turns_to(f"run-{number}").starts().calls("exec", number).finishes()
    trace = read(story)
    run = trace.named("run run_001")
    agents = trace.all("invoke_agent openclaw_agent")
    assert len({span.trace_id for span in (*agents, run)}) == 4
    assert [agent.links for agent in agents] == [[(run.trace_id, run.span_id)]] * 3
    assert all(trace.parent_of(tool).trace_id == tool.trace_id for tool in trace.all("execute_tool exec"))
    assert run.links == []
    assert (trace.resource["critiqor.run_id"], trace.resource["critiqor.run_trace_id"]) == ("run_001", run.trace_id)


def test_every_attempt_is_a_span_of_its_own() -> None:
    story = Story().starts().asks(model="m").model(model="m", error="500").finishes(error="500")
    story.event("agent_start", payload={"attempt": 2}).asks(model="m").model(model="m").finishes()
    [first, second] = read(story).all("invoke_agent openclaw_agent")
    assert (first.status, first.attributes["critiqor.attempt"]) == (ERROR, 1)
    assert (second.status, second.attributes["critiqor.attempt"]) == (0, 2)
    assert [chat.parent_id for chat in read(story).all("chat m")] == [first.span_id, second.span_id]


def test_a_call_without_end_lasts_to_the_end_of_the_run_and_is_marked() -> None:
    story = Story().starts()
    story.begins("exec")
    story.waits(5000).event("process_end", layer="supervisor", payload={"exit_code": -9})
    trace = read(story)
    tool = trace.named("execute_tool exec")
    assert tool.attributes["critiqor.unfinished"] is True
    assert tool.end_ns == trace.named("run run_001").end_ns == (START + 8000) * 1_000_000


def test_a_call_without_beginning_has_its_reported_duration() -> None:
    story = Story().starts().event("tool_output", tool_name="x", tool_call_id="c", duration_ms=700, payload={})
    tool = read(story).named("execute_tool x")
    assert tool.end_ns - tool.start_ns == 700_000_000
    assert read(story).parent_of(tool).name == "invoke_agent openclaw_agent"


def concluded(story: Story, step: int | str, **fields: object) -> Diagnosis:
    """A diagnosis of one finding that began with an event of the story, by its place, or with that of an id."""
    cited = step if isinstance(step, str) else story.events[step].event_id
    return diagnosis(
        "run_001", finding("tool_loop:exec", "high", 30, id="finding_001", first_bad_step=cited, **fields), trust=70
    )


def evaluated(trace: ReadTrace) -> list[tuple[ReadSpan, dict[str, object]]]:
    """Return the evaluations of findings, each with its span."""
    evaluations = [(span, evaluation) for span in trace.spans for evaluation in span.of(EVALUATION)]
    return [(span, evaluation) for span, evaluation in evaluations if "critiqor.finding.id" in evaluation]


@pytest.mark.parametrize(
    ("step", "name"),
    [
        (0, "invoke_agent openclaw_agent"),  # it began
        (1, "invoke_agent openclaw_agent"),  # what the user said
        (2, "chat m"),  # a request
        (3, "chat m"),  # its end
        (4, "chat m"),  # what was answered
        (5, "execute_tool exec"),  # a call
        (6, "execute_tool exec"),  # its result
        (7, "execute_tool exec"),  # an event of the same call
        (8, "invoke_agent openclaw_agent"),  # it ended
        (9, "invoke_agent openclaw_agent"),  # an event after its end
        (10, "run run_001"),  # the process
    ],
)
def test_a_finding_is_an_event_of_the_span_where_it_began(step: int, name: str) -> None:
    story = Story().starts().user("go").asks(model="m").model(model="m").says("I call").calls("exec", {})
    story.event("memory_event", tool_name="exec", tool_call_id="call_1", payload={"lookup": "empty"})
    story.finishes().event("subagent_ended").process(1)
    [(span, evaluation)] = evaluated(read(story, concluded(story, step)))
    assert span.name == name
    assert evaluation == {
        "gen_ai.evaluation.name": "tool_loop",
        "gen_ai.evaluation.score.value": 30.0,
        "gen_ai.evaluation.score.label": "high",
        "gen_ai.evaluation.explanation": FAILURE_TYPES["tool_loop"],
        "critiqor.finding.id": "finding_001",
        "critiqor.event_id": story.events[step].event_id,
        "critiqor.finding.confidence": 100,
        "critiqor.finding.occurrences": 1,
    }


def test_a_finding_that_cites_a_line_of_the_timeline_or_no_event_is_an_event_of_the_run() -> None:
    story = talk()
    line = "timeline_0000002"
    trace = read(story, concluded(story, line), moments={line: START * 1000 + 5})
    [event] = [event for event in trace.named("run run_001").events if "critiqor.finding.id" in event[2]]
    assert event[1] == START * 1_000_000 + 5000
    [(span, _)] = evaluated(read(story, concluded(story, "gone", evidence=[])))
    assert span.name == "run run_001"


def test_title_explanation_and_cause_are_exported_only_with_content() -> None:
    story = talk()
    quoting = finding("tool_loop:make all", title="“the question”", explanation="it said “the answer”")
    result = diagnosis("run_001", quoting)
    without = b"".join(otlp.report(recorded(story, result))).decode()
    assert [secret for secret in SECRETS if secret in without] == []
    [(_, evaluation)] = evaluated(read(story, result, content=True))
    assert evaluation["gen_ai.evaluation.explanation"] == "“the question”. it said “the answer”"
    assert evaluation["critiqor.finding.cause"] == "tool_loop:make all"


def test_an_unknown_failure_type_is_exported_by_name_only() -> None:
    story = talk()
    [(_, evaluation)] = evaluated(read(story, concluded(story, 0, type="of_tomorrow")))
    assert evaluation["gen_ai.evaluation.name"] == evaluation["gen_ai.evaluation.explanation"] == "of_tomorrow"


def test_the_verdict_is_an_evaluation_of_the_run() -> None:
    root = read(talk(), diagnosis(trust=85)).named("run run_001")
    [verdict] = root.of(EVALUATION)
    assert verdict == {
        "gen_ai.evaluation.name": "trust",
        "gen_ai.evaluation.score.value": 85.0,
        "gen_ai.evaluation.score.label": "ready",
        "gen_ai.evaluation.explanation": "no failure was found",
    }
    [with_content] = read(talk(), diagnosis(trust=85), content=True).named("run run_001").of(EVALUATION)
    assert with_content["gen_ai.evaluation.explanation"] == "What happened."
    assert root.attributes["critiqor.trust_score"] == 85
    unseen = read(talk(), diagnosis(trust=None)).named("run run_001")
    assert "gen_ai.evaluation.score.value" not in unseen.of(EVALUATION)[0]


def test_the_verdict_on_each_of_several_sessions_is_an_evaluation_of_the_run() -> None:
    result = diagnosis("run_001", finding("tool_loop:x", session_key="a", agent_run_id="run-1"), trust=70)
    judged: list[tuple[str, int, Readiness]] = [("a", 70, "unsafe"), ("b", 100, "ready")]
    result.sessions = [
        SessionDiagnosis(session_key=key, agent_runs=[], trust_score=trust, readiness=readiness)
        for key, trust, readiness in judged
    ]
    story = talk()
    events = [each for span in read(story, result).spans for each in span.of(EVALUATION)]
    sessions = [each for each in events if each["gen_ai.evaluation.name"] == "session trust"]
    assert [
        (each["gen_ai.conversation.id"], each["gen_ai.evaluation.score.value"], each["gen_ai.evaluation.score.label"])
        for each in sessions
    ] == [("a", 70.0, "unsafe"), ("b", 100.0, "ready")]
    [found] = [each for each in events if "critiqor.finding.id" in each]
    assert (found["gen_ai.conversation.id"], found["critiqor.agent_run_id"]) == ("a", "run-1")
    [verdict] = [each for each in events if each["gen_ai.evaluation.name"] == "trust"]
    assert "worst session a; 1 other is ready" in str(verdict["gen_ai.evaluation.explanation"])
    result.trust_score = None
    unproven = [each for span in read(story, result).spans for each in span.of(EVALUATION)]
    verdicts = [each for each in unproven if "critiqor.finding.id" not in each]
    assert len(verdicts) == 3
    assert not any("gen_ai.evaluation.score.value" in each for each in verdicts)


def test_ids_are_the_same_whenever_the_run_is_exported_and_others_in_every_other_run() -> None:
    def ids(run: RunHead) -> list[tuple[str, str]]:
        run_export = Recorded(run, talk().events, None, {}, {}, "1")
        return [(span.trace_id, span.span_id) for span in ReadTrace(b"".join(otlp.report(run_export))).spans]

    assert ids(head()) == ids(head())
    for other in (head("run_002"), head(created=START + 1)):
        assert not {span for span, _ in ids(head())} & {span for span, _ in ids(other)}
        assert not {span for _, span in ids(head())} & {span for _, span in ids(other)}


def test_sessions_of_a_gateway_that_talk_at_the_same_time_are_not_mixed() -> None:
    events: list[Event] = []
    for number in range(40):
        story = Story(f"agent:main:{number}", f"run-{number}", start=START + number)
        events += (
            story.starts().user(f"question {number}").asks(model="m").model(model="m").says(f"answer {number}").events
        )
        events += story.calls("exec", number).finishes().events[len(story.events) - 3 :]
    events = [msgspec.structs.replace(event, event_id=f"{event.event_id}{event.session_key}") for event in events]
    trace = read(sorted(events, key=lambda event: event.timestamp), content=True)
    agents = trace.all("invoke_agent openclaw_agent")
    assert len(agents) == 40
    for agent in agents:
        number = agent.attributes["session.id"].rsplit(":")[-1]
        assert agent.attributes["input.value"] == f"question {number}"
        children = [span for span in trace.spans if span.parent_id == agent.span_id]
        assert [span.attributes["output.value"] for span in children if span.name == "chat m"] == [f"answer {number}"]
        assert {span.attributes["session.id"] for span in children} == {agent.attributes["session.id"]}
        assert len(children) == 2


def test_any_number_of_results_without_calls_is_exported() -> None:
    story = Story().starts()
    for number in range(3 * MAX_HELD):
        story.event("tool_output", tool_name="x", tool_call_id=f"c{number}", payload={})
    assert len(read(story).all("execute_tool x")) == 3 * MAX_HELD


def test_spans_are_yielded_while_events_are_still_read() -> None:
    story = Story()
    for number in range(50):
        story.turns_to(f"run-{number}").starts().calls("exec", number).says("done").finishes()
    read_so_far = 0

    def events() -> Iterator[Event]:
        nonlocal read_so_far
        for event in story.events:
            read_so_far += 1
            yield event

    spans = build_spans(Recorded(head(), events(), None, {}, {}, "1"))
    for number in range(100):
        next(spans)
        assert read_so_far <= (number // 2 + 2) * 5
    assert [span.name for span in spans] == ["run run_001"]


def test_requests_are_separate_documents_that_contain_every_span_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "MAX_SPANS", 2)
    bodies = [request.json() for request in otlp.requests(recorded(talk()))]
    assert len(bodies) == 3
    whole = ReadTrace(b"".join(otlp.report(recorded(talk()))))
    parts = ReadTrace(*bodies)
    assert parts.spans == whole.spans
    assert parts.resource == whole.resource
    monkeypatch.setattr(otlp, "MAX_CHARACTERS", 1)
    assert len(list(otlp.requests(recorded(talk())))) == len(whole.spans)


def test_the_document_is_one_line_like_those_of_the_file_exporter() -> None:
    data = b"".join(otlp.report(recorded(talk(), content=True)))
    assert data.count(b"\n") == 1
    assert data.endswith(b"\n")


def test_a_run_without_events_is_a_single_span() -> None:
    assert read([]).tree() == [["run run_001"]]


def test_texts_of_the_run_are_cut_and_have_no_control_characters() -> None:
    story = Story().starts().calls("evil\x1b[31m\x00\u202e" * 500, {"a": "x\x00y\tz\n"}, "l" * 90_000).finishes()
    [tool] = [span for span in read(story, content=True).spans if span.name.startswith("execute_tool")]
    assert len(tool.attributes["gen_ai.tool.name"]) <= 256
    assert len(tool.attributes["output.value"]) == MAX_CONTENT
    texts = [text for text in tool.attributes.values() if isinstance(text, str)]
    assert not {"\x00", "\x1b", "\u202e"} & set("".join([tool.name, *texts]))


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_NAMES = ("role", "text", "tool_calls", "stop_reason", "arguments", "result", "provider", "model", "usage", "attempt")
_KINDS = [
    *("agent_start", "agent_end", "turn_start", "before_provider_request", "token_usage", "tool_call", "tool_output"),
    *("message_end", "input", "memory_event", "process_end", "compaction_end", "subagent_ended"),
]
_EVENTS = st.builds(
    lambda kind, at, status, payload, **fields: Event(
        event_type=kind, timestamp=iso_from_ms(START + at), status=status, payload=payload, **fields
    ),
    st.sampled_from(_KINDS),
    st.integers(0, 50),
    st.sampled_from(["ok", "error"]),
    st.dictionaries(st.sampled_from([*_NAMES, "exit_code", "errorCategory", "agent_id", "callId", "lookup"]), _JSON),
    event_id=st.sampled_from(["evt_a", "evt_b", "evt_c", "evt_d", ""]),
    session_key=st.sampled_from([None, "s1", "s2"]),
    agent_run_id=st.sampled_from([None, "r1", "r2"]),
    tool_call_id=st.sampled_from([None, "c1", "tool_search_code:c1:x:1", "tool_search_code:"]),
    tool_name=st.sampled_from([None, "exec"]),
    source_layer=st.sampled_from(["extension_api", "supervisor"]),
    duration_ms=st.none() | st.floats() | st.integers(-5, 50),
)


@given(st.lists(_EVENTS, max_size=30), st.booleans())
def test_arbitrary_events_give_valid_spans(events: list[Event], content: bool) -> None:
    result = diagnosis("run_001", finding(first_bad_step="evt_b"), finding(first_bad_step="evt_d"))
    trace = read(events, result, content=content)
    binary = [request.protobuf() for request in otlp.requests(recorded(events, result, content=content))]
    assert ReadTrace(*binary, is_binary=True).spans == trace.spans
    assert len(evaluated(trace)) == 2
    run = trace.named("run run_001")
    assert all(
        span.links == [(run.trace_id, run.span_id)] for span in trace.spans if not span.parent_id and span != run
    )
    ids = {(span.trace_id, span.span_id) for span in trace.spans}
    assert all((span.trace_id, span.parent_id) in ids for span in trace.spans if span.parent_id)
