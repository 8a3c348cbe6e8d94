"""Markdown reports, read by a Markdown parser: contents, size limits, and no text of a run becomes markup."""

from __future__ import annotations

from collections import Counter

import pytest
from diagnosed import diagnoses, diagnosis, finding, texts_of
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from reports import HOSTILE, gated, report
from timelines import line, real_timeline, span, summary_of

from critiqor.exporters import markdown
from critiqor.exporters.markdown import document
from critiqor.exporters.markdown_text import code_span, escape_markdown
from critiqor.model import Coverage, Diagnosis
from critiqor.model.report import TimedReport
from critiqor.model.timeline import TimelineSummary
from critiqor.timeline import read_timeline

COMMENT = 65_000
"""Characters that a comment on GitHub has room for, and a few more."""
WORDS = ("text", "code_inline", "text_special")


def tokens(text: str) -> list[Token]:
    """Everything that a reader of GitHub's Markdown would see, inner parts included."""
    parsed = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    return [token for block in parsed for token in (block, *(block.children or ()))]


def kinds(text: str) -> Counter[str]:
    return Counter(token.type for token in tokens(text))


def structure(text: str) -> Counter[str]:
    """Return the kinds of tokens, without those for text."""
    found = kinds(text)
    for kind in WORDS:
        del found[kind]
    return found


def words(text: str) -> str:
    return "".join(token.content for token in tokens(text) if token.type in WORDS)


def test_the_verdict_comes_first_and_the_worst_problem_next() -> None:
    concluded = diagnosis(
        "run_001",
        finding("tool_loop:exec", "high", 30, id="finding_001", occurrences=5, first_bad_step="evt_7"),
        finding("timeout", "low", 5, id="finding_002"),
        trust=65,
        cost_usd=0.5,
    )
    text = document(report(concluded))
    lines = text.splitlines()
    assert lines[0] == "## `run_001`: review"
    assert "| trust | 65 of 100 |" in lines
    assert r"| cost | \$0.5000; 90 tokens in, 10 out |" in lines
    first, second = text.index("### Main problem"), text.index("### Further findings")
    assert first < text.index("**HIGH** `tool_loop`") < second < text.index("**LOW** `timeout`")
    assert "It happened 5 times. It lowers trust by 30 points. It began with `evt_7`." in text
    assert "- What to change: fix it" in lines
    assert "- Next: `critiqor explain run_001 finding_001`" in lines
    assert "- Next: `critiqor explain run_001 finding_002`" in lines
    assert "sealed as `sha256:run_001`" in text


def test_a_clean_run_has_no_problem_and_an_unobserved_one_is_not_called_clean() -> None:
    clean = document(report(diagnosis()))
    assert clean.startswith("## `run_001`: ready\n")
    assert "###" not in clean
    unseen = diagnosis(trust=None, confidence=20)
    unseen.readiness = "unknown"
    text = document(report(unseen))
    assert text.startswith("## `run_001`: unknown: too little of it was recorded\n")
    assert "| trust | unknown: the agent was not observed |" in text


def test_unknown_values_are_shown_as_unknown() -> None:
    text = document(report(diagnosis(wall_ms=None, cost_usd=None, model_calls_without_usage=1)))
    assert "| cost | no price known; at least 90 tokens in, 10 out |" in text
    assert "| time | unknown |" in text


def test_gaps_in_the_evidence_are_listed() -> None:
    assert "- 1 record was lost" in document(report(diagnosis(), Coverage(notes=["1 record was lost"])))
    many = document(report(diagnosis(), Coverage(notes=[f"note {number}" for number in range(50)])))
    assert "- and 30 more" in many
    assert "critiqor verify run_001" in document(report(diagnosis(), None))


def test_the_gate_is_a_table_of_its_rules() -> None:
    gate_report = gated(diagnosis("run_001", finding("timeout", "high"), trust=55))
    text = document(gate_report.report, gate_report.gate)
    assert "### Policy check: fails 2 of 6 rules" in text
    assert "| `min_trust` | **failed** | trust is 55, at least 70 required |" in text
    assert "| `require_observed` | passed | the agent was observed |" in text
    assert kinds(text)["table_open"] == 2
    assert "### Policy check: passes 6 rules" in document(gated(diagnosis()).report, gated(diagnosis()).gate)


def test_hostile_texts_stay_plain_text() -> None:
    hostile = finding(HOSTILE, "high", id=HOSTILE, first_bad_step=HOSTILE, **texts_of(HOSTILE))
    gate_report = gated(diagnosis("run_001", hostile, trust=1), agent_id=HOSTILE)
    gate_report.report.diagnosis.headline = HOSTILE
    text = document(gate_report.report, gate_report.gate)
    harmless = finding("x", "high", id="y", first_bad_step="z")
    usual = gated(diagnosis("run_001", harmless, trust=1))
    plain = document(usual.report, usual.gate)
    assert structure(text) == structure(plain)
    assert not {"html_block", "html_inline", "link_open", "image"} & set(structure(text))
    assert "<script>alert(1)</script>" in words(text)
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "name", ["@everyone", "#12", "owner/repo#3", "GH-4", "gh-5", "https://evil.example", "www.evil.example"]
)
def test_texts_mention_no_users_and_link_no_issues(name: str) -> None:
    """GitHub looks for these in what it shows: a space without width stands in between."""
    shown = words(escape_markdown(f"see {name} there", 200))
    assert name not in shown
    assert shown.replace("\u200b", "") == f"see {name} there"


def test_a_text_at_the_start_of_a_block_does_not_change_its_kind() -> None:
    for text in (
        "# title",
        "1. one",
        "2) two",
        "- item",
        "+ item",
        "* item",
        "> quote",
        "---",
        "===",
        "```",
        "    code",
    ):
        assert set(kinds(escape_markdown(text, 100))) <= {
            "paragraph_open",
            "inline",
            "text",
            "text_special",
            "paragraph_close",
        }, text


def test_normal_sentences_are_not_escaped() -> None:
    for text in ("1 model call failed: HTTP 500, 3.5 s (of 10).", "It said “done”; that's 50% - or less!"):
        assert escape_markdown(text, 100) == text


@given(st.text(max_size=60), st.integers(5, 80))
def test_escaped_text_is_within_its_limit_and_stays_plain_text(text: str, longest: int) -> None:
    escaped = escape_markdown(text, longest)
    assert len(escaped) <= longest
    assert set(kinds(escaped)) <= {"paragraph_open", "inline", "text", "text_special", "paragraph_close"}
    assert "`" not in code_span(text)[1:-1]


def test_hundreds_of_findings_fit_into_a_comment_and_the_rest_is_counted() -> None:
    long = texts_of("@a " * 2000)
    found = [finding(f"timeout:{number}", "high", id=f"finding_{number:03}", **long) for number in range(300)]
    gate_report = gated(diagnosis("run_001", *found, trust=0), agent_id="@" * 5000)
    notes = Coverage(notes=["@b " * 1000] * 100)
    text = document(report(gate_report.report.diagnosis, notes, agent_id="@" * 5000), gate_report.gate)
    assert 40_000 < len(text) < COMMENT
    shown = text.count("**HIGH**")
    assert f"And {300 - shown} more, none of them more severe: `critiqor show run_001`" in text
    assert "What the recorder did not see" in text


@given(diagnoses)
def test_every_diagnosis_has_a_report(concluded: Diagnosis) -> None:
    data = b"".join(markdown.report(TimedReport(report(concluded), TimelineSummary(present=False))))
    assert data.endswith(b"\n") and len(data.decode()) < COMMENT
    assert data.decode().count("- Next: ") == len(concluded.failure_analysis.findings)


def test_what_a_report_has_to_say_about_the_timeline_is_part_of_it() -> None:
    summary = read_timeline(real_timeline("2026.9.6-gateway"))
    text = document(report(diagnosis()), timing=summary)
    assert f"- present: {summary.events} events, no parse errors" in text
    for title in ("Slowest spans", "Repeated span names", "Event loop, providers, child processes"):
        assert f"### {title}\n" in text
    assert f"| `{summary.slowest_spans[0].name}" in text
    assert "- event loop: longest delay" in text
    assert f"- providers: {summary.providers.count} requests, 0 failed; the slowest took" in text
    assert "- child processes: " in text
    assert "openclaw.diagnostics.v1" not in text, "raw events are no part of a report"
    absent = document(report(diagnosis()), timing=TimelineSummary(present=False, unavailable="none was written"))
    assert "- OpenClaw's diagnostics are unavailable: none was written" in absent


def test_staged_dependencies_are_grouped_by_plugin() -> None:
    staged = [line("span.end", "runtimeDeps.stage", 9, durationMs=9, attributes={"pluginId": "browser"})] * 2
    text = document(report(diagnosis()), timing=summary_of(*staged))
    assert "### Runtime dependencies staged, by plugin" in text
    assert "| `browser` | 2 | 0 |" in text


def test_hostile_and_long_names_of_a_timeline_stay_names_and_the_report_stays_short() -> None:
    lines = [
        each
        for number in range(40)
        for each in span(f"{number} {HOSTILE}" + "x" * 5_000, str(number), number, number + 5, pid=number)
    ]
    text = document(report(diagnosis()), timing=summary_of(*lines))
    assert len(text) < COMMENT
    assert not {"html_block", "html_inline", "link_open", "image"} & set(structure(text))
    assert text.replace("\n", "").isprintable()
