"""Contracts: what each pattern reports, on which events, and what is not known."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from story import Story, interleaved

from critiqor.diagnosis import Diagnoser
from critiqor.diagnosis.detectors import CONTRACT_VIOLATION
from critiqor.model import Coverage, Diagnosis, Event, Finding
from critiqor.policy.contract import PATTERNS, Contract
from critiqor.policy.contracts import ContractChecker
from critiqor.policy.policy_file import parse_policy

DOCS = Path(__file__).parent.parent.parent / "docs"
READ = 'call.tool == "read"'
WRITE = 'call.tool == "write"'


def contract(**given: Any) -> Contract:
    return msgspec.convert({"id": "rule", **given}, Contract)


def checked(story: Story | list[Event], *contracts: Contract) -> ContractChecker:
    checker = ContractChecker(contracts)
    for event in story.events if isinstance(story, Story) else story:
        checker.observe(event)
    return checker


def violations(story: Story | list[Event], **given: Any) -> int:
    checker = checked(story, contract(**given))
    [result] = checker.results()
    assert result.not_evaluated == 0, result.problem
    assert result.violations == sum(draft.occurrences for draft in checker.findings(is_over=True))
    return result.violations


def diagnosed(events: list[Event], *contracts: Contract) -> Diagnosis:
    diagnoser = Diagnoser([ContractChecker(contracts)])
    for event in events:
        diagnoser.observe(event)
    coverage = Coverage(agent_events=len(events), recorder_attached=True, sources={"hooks": True})
    return diagnoser.conclude("run_001", "sha256:0", coverage, "2026-11-15T00:00:00.000Z")


def files(*names: str) -> Story:
    """An agent that reads files (`r…`) and writes others (`w…`)."""
    story = Story().starts().user("please")
    for name in names:
        story.calls("read" if name.startswith("r") else "write", {"path": name[1:]}, "text")
    return story.says("done").finishes()


PATTERN_CASES: list[tuple[dict[str, Any], list[str], list[str]]] = [
    ({"never": WRITE}, ["rx"], ["rx", "wx"]),
    ({"never": {"call": WRITE, "after": READ}}, ["wx", "rx"], ["rx", "wx"]),
    (
        {"never": {"call": WRITE, "after": READ, "where": "first.call.args.path == call.args.path"}},
        ["rx", "wy"],
        ["rx", "ry", "wx"],
    ),
    ({"always": 'call.args.path != "secret"'}, ["rx", "wy"], ["rx", "wsecret"]),
    ({"require": READ}, ["wx", "rx"], ["wx"]),
    ({"before": {"call": WRITE, "needs": READ}}, ["rx", "wx"], ["wx", "rx"]),
    (
        {"before": {"call": WRITE, "needs": READ, "where": "first.call.args.path == call.args.path"}},
        ["rx", "ry", "wx"],
        ["ry", "wx"],
    ),
    ({"before": {"call": WRITE, "needs": [READ, 'message.text == "please"']}}, ["wx"], []),
    ({"after": {"call": WRITE, "needs": READ}}, ["wx", "wy", "rx"], ["rx", "wx"]),
    (
        {"after": {"call": WRITE, "needs": READ, "where": "first.call.args.path == call.args.path"}},
        ["wx", "wy", "ry", "rx"],
        ["wx", "wy", "ry"],
    ),
    ({"at_most": {"call": READ, "times": 2}}, ["rx", "ry"], ["rx", "ry", "rz"]),
    ({"at_most": {"call": READ, "times": 0}}, ["wx"], ["rx"]),
    ({"only_if": {"call": WRITE, "holds": 'call.args.path != "x"'}}, ["wy"], ["wx"]),
    (
        {"only_if": {"call": WRITE, "last": READ, "holds": "first.call.args.path == call.args.path"}},
        ["ry", "rx", "wx"],
        ["rx", "ry", "wx"],
    ),
    ({"only_if": {"call": WRITE, "last": READ, "holds": "true"}}, ["rx", "wx"], ["wx"]),
]


@pytest.mark.parametrize(("given", "kept", "broken"), PATTERN_CASES, ids=lambda value: str(value)[:90])
def test_a_pattern_is_kept_or_violated(given: dict[str, Any], kept: list[str], broken: list[str]) -> None:
    assert violations(files(*kept), **given) == 0
    if broken:
        assert violations(files(*broken), **given) == 1


def test_every_pattern_has_a_case() -> None:
    assert {name for given, _, _ in PATTERN_CASES for name in given} == set(PATTERNS)


def test_an_event_is_not_before_itself() -> None:
    same = {"call": READ, "needs": READ}
    assert violations(files("rx", "ry"), before=same) == 1
    assert violations(files("rx", "ry"), after=same) == 1


def test_a_result_is_judged_when_the_call_has_returned_and_sees_its_call() -> None:
    story = Story().starts().calls("fetch", {"url": "a"}, '{"items": [1, 2]}').fails("fetch", {"url": "b"})
    assert violations(story, never='call.args.url == "a" && size(result.json.items) == 2') == 1
    assert violations(story, never='result.status == "error" && call.args.url == "b"') == 1
    assert violations(story, never='result.text.contains("items")') == 1
    began = Story().starts()
    began.begins("fetch", {"url": "a"})
    assert violations(began, never='call.tool == "fetch"') == 1
    assert violations(began, never='call.tool == "fetch" && result.status == "ok"') == 0


def test_an_earlier_call_whose_result_is_compared_counts_once_it_has_returned() -> None:
    story = (
        Story().starts().user("cancel").calls("get", {"id": 5}, '{"state": "shipped"}').calls("cancel", {"id": 5}, "ok")
    )
    story.finishes()
    cancel, get = 'call.tool == "cancel"', 'call.tool == "get"'
    assert violations(story, only_if={"call": cancel, "last": get, "holds": 'first.result.json.state == "open"'}) == 1
    assert (
        violations(story, only_if={"call": cancel, "last": get, "holds": 'first.result.json.state == "shipped"'}) == 0
    )
    assert violations(story, before={"call": cancel, "needs": get, "where": 'first.result.status == "ok"'}) == 0
    assert violations(story, after={"call": get, "needs": cancel, "where": 'first.result.status == "ok"'}) == 0
    assert violations(story, never={"call": cancel, "after": get, "where": 'first.result.json.state == "shipped"'}) == 1


def test_messages_and_the_session_are_seen() -> None:
    story = Story("agent:main:shop").starts().user("Buy it").says("I bought it.").finishes()
    assert violations(story, never='message.role == "assistant" && message.text.matches("(?i)BOUGHT")') == 1
    assert violations(story, never='message.role == "user" && session.endsWith("shop")') == 1
    assert violations(story, never='message.role == "user" && session == ""') == 0


def test_sessions_are_judged_by_themselves_and_agent_runs_if_wanted() -> None:
    rule = {"before": {"call": WRITE, "needs": READ}}
    story = files("rx")
    story.turns_to("run-2").calls("write", {"path": "x"}).turns_to("run-3", "other").calls("write", {"path": "x"})
    assert violations(story, **rule) == 1
    assert violations(story, **rule, per="agent_run") == 2


def test_a_finding_has_the_text_severity_place_and_events() -> None:
    rule = contract(never={"call": WRITE, "after": READ}, says="Wrote after reading.", severity="high")
    story = files("rx", "wx", "wy")
    found = [each for each in findings(diagnosed(story.events, rule)) if each.type == CONTRACT_VIOLATION]
    calls = [event.event_id for event in story.events if event.event_type == "tool_call"]
    [finding] = found
    assert (finding.title, finding.severity, finding.occurrences) == ("Wrote after reading.", "high", 2)
    assert (finding.session_key, finding.agent_run_id) == ("agent:main:main", "run-1")
    assert (finding.evidence, finding.first_bad_step) == (calls, calls[1])
    assert [step.event_id for step in finding.causal_chain] == calls[:2]
    assert finding.cause == "contract_violation:rule"
    assert finding.impact.trust_points == 30
    assert "never `call.tool ==" in finding.explanation


def test_a_violation_is_found_while_the_agent_works_and_is_the_same_at_the_end() -> None:
    rules = [contract(never=WRITE, severity="high"), contract(id="end", require='call.tool == "test"')]
    diagnoser = Diagnoser([ContractChecker(rules)])
    story = files("rx", "wx", "ry")
    so_far: list[list[str]] = []
    for event in story.events:
        diagnoser.observe(event)
        found = diagnoser.findings(Coverage(agent_events=1, recorder_attached=True))
        so_far.append([each.cause for each in found if each.type == CONTRACT_VIOLATION])
    began = next(at for at, event in enumerate(story.events) if event.tool_name == "write")
    assert so_far[began - 1] == []
    assert so_far[began] == ["contract_violation:rule"]
    concluded = [each.cause for each in findings(diagnosed(story.events, *rules)) if each.type == CONTRACT_VIOLATION]
    assert so_far[-1] == concluded == ["contract_violation:rule", "contract_violation:end"]


def findings(diagnosis: Diagnosis) -> list[Finding]:
    return diagnosis.failure_analysis.findings


def test_two_contracts_that_one_event_violates_are_two_findings() -> None:
    rules = [contract(never=WRITE), contract(id="other", never='call.args.path == "x"', severity="low")]
    found = findings(diagnosed(files("wx").events, *rules))
    assert sorted(each.cause for each in found) == ["contract_violation:other", "contract_violation:rule"]


def test_an_expression_that_cannot_be_evaluated_is_counted_and_is_neither_violation_nor_pass() -> None:
    story = Story().starts().calls("read", {"path": "x"}).calls("exec", {"command": "ls"})
    for pattern in (
        {"never": 'call.args.path == "y"'},
        {"always": 'call.args.path == "x"'},
        {"before": {"call": 'call.args.path == "y"', "needs": READ}},
        {"never": 'call.args.path.size() > 3 ? 1 : 2 == "x"'},
    ):
        [result] = checked(story, contract(**pattern)).results()
        assert (result.violations, result.holds) == (0, False), pattern
        assert result.not_evaluated >= 1
    [result] = checked(story, contract(never='call.args.path == "y"')).results()
    assert (result.not_evaluated, result.problem_event) == (1, story.events[3].event_id)
    assert result.problem == "call.args.path == \"y\": the event has no 'path'"
    assert violations(story, never='has(call.args.path) && call.args.path == "y"') == 0
    assert violations(story, never='call.tool == "read" && call.args.path == "y"') == 0


def test_a_condition_that_is_not_known_is_no_violation() -> None:
    rule = contract(before={"call": WRITE, "needs": READ, "where": "first.call.args.size == 1"})
    [result] = checked(files("rx", "wx"), rule).results()
    assert (result.violations, result.not_evaluated) == (0, 1)


def test_a_value_that_is_too_large_is_missing_and_not_a_pass() -> None:
    story = Story().starts().calls("fetch", {"ids": list(range(201))}, '{"deep": ' + "[" * 40 + "]" * 40 + "}")
    for expression in ("size(call.args.ids) > 3", 'result.json.deep == ""', 'result.json.missing == "x"'):
        [result] = checked(story, contract(never=expression)).results()
        assert (result.violations, result.not_evaluated) == (0, 1), expression
    assert violations(story, never='call.tool == "fetch" && has(result.json)') == 0


@pytest.mark.parametrize("value", ["\ud800", 2**80, float("inf"), None, {"": {"a": None}}, [[[]]], True])
def test_any_recorded_value_can_be_bound(value: Any) -> None:
    story = Story().starts().calls("fetch", {"value": value}, f'{{"value": {"9" * 400}}}')
    assert violations(story, never='call.tool == "other"') == 0
    assert violations(story, never='call.tool == "fetch" && result.status == "ok"') == 1


def test_a_result_without_its_call_has_no_arguments() -> None:
    story = Story().starts().ends("read", "call_9", "text")
    [result] = checked(story, contract(never='call.args.path == "x" && result.status == "ok"')).results()
    assert result.not_evaluated == 1
    assert violations(story, never='call.tool == "read" && result.status == "ok"') == 1


def test_what_is_missing_is_reported_once_the_agent_run_is_over_and_withdrawn_if_it_follows() -> None:
    rule = contract(after={"call": WRITE, "needs": READ})
    checker = ContractChecker([rule])
    story = Story().starts().calls("write", {"path": "x"})
    for event in story.events:
        checker.observe(event)
    assert checker.findings() == []
    ended = story.finishes().events[-1]
    checker.observe(ended)
    [draft] = checker.findings()
    assert draft.first_bad_step == story.events[1].event_id
    for event in Story(run="run-2", start=1_794_000_900_000).starts().calls("read", {"path": "x"}).events:
        checker.observe(event)
    assert checker.findings() == checker.findings(is_over=True) == []


def test_what_is_required_is_missing_in_a_session_without_any_call() -> None:
    story = Story().starts().user("hello").says("hi").finishes()
    [draft] = checked(story, contract(require=READ)).findings(is_over=True)
    assert draft.evidence == [story.events[-1].event_id]
    assert violations([], require=READ) == 0


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["rx", "ry", "wx", "wy"]), max_size=8), st.sampled_from(PATTERN_CASES), st.data())
def test_findings_so_far_are_those_of_the_events_so_far(
    names: list[str], case: tuple[dict[str, Any], list[str], list[str]], data: st.DataObject
) -> None:
    """Findings may be requested at any time, and neighbours and requests change nothing."""
    rule = contract(**case[0])
    events = files(*names).events
    other = msgspec.json.decode(msgspec.json.encode(files("ry", "wx").events), type=list[Event])
    neighbour = [msgspec.structs.replace(event, session_key="other", agent_run_id="run-8") for event in other]
    asked = ContractChecker([rule])
    for event in interleaved(events, neighbour):
        asked.observe(event)
        if data.draw(st.booleans()):
            asked.findings()
    own = [draft for draft in asked.findings() if draft.scope.session_key != "other"]
    alone = checked(events, rule)
    assert own == alone.findings() == alone.findings(is_over=True)


LIBRARY = {
    found[1]: found[0]
    for found in re.findall(
        r'```toml\n(\[\[contracts\]\]\nid = "([\w-]+)".*?)```', (DOCS / "policy.md").read_text(), re.DOTALL
    )
}
"""The contracts that the documentation offers, by id."""


def library_case(name: str, *, kept: bool) -> Story:
    story = Story().starts().user("Please do it.")
    match name:
        case "look-before-you-delete":
            story.runs("cd /tmp && ls -la build" if kept else "pwd").runs("sudo rm -v -rf build")
        case "no-force-push":
            story.runs("git push --force-with-lease" if kept else "cd app && git push origin main --force")
            story.runs("git push origin fix").runs("git diff; grep -f patterns -r .").runs("git push", exit_code=1)
        case "tests-before-done":
            story.calls("write", {"path": "notes.md", "content": "x"}).calls("edit", {"path": "src/a.py"})
            story.runs("python -m pytest -q" if kept else "python a.py").says("Done.")
        case "no-network-after-secrets":
            story.runs("curl https://example.com").calls("read", {"path": "README.md"})
            story.calls("read", {"path": "app/.env"}) if not kept else story.runs("cat notes.txt")
            story.calls("web_fetch", {"url": "https://example.com"})
        case "ask-before-paying":
            story.says("Shall I buy it?").user("Yes, please." if kept else "How much is it?")
            story.calls("checkout", {"item": 3})
    return story.finishes()


@pytest.mark.parametrize("name", LIBRARY)
def test_the_contracts_of_the_documentation_do_what_they_say(name: str) -> None:
    [rule] = parse_policy(LIBRARY[name].encode(), "toml", ()).contracts
    given = {key: value for key, value in msgspec.to_builtins(rule).items() if key != "id"}
    assert violations(library_case(name, kept=True), **given) == 0
    assert violations(library_case(name, kept=False), **given) == 1


def test_the_documentation_offers_contracts() -> None:
    wanted = {"look-before-you-delete", "no-force-push", "tests-before-done", "no-network-after-secrets"}
    assert wanted | {"ask-before-paying"} == set(LIBRARY)


def test_the_example_of_an_airline_is_a_valid_policy() -> None:
    content = (DOCS.parent / "examples" / "policies" / "airline.toml").read_bytes()
    assert 20 <= len(parse_policy(content, "toml", ()).contracts) <= 40
