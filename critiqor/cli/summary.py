"""One run in a few lines: what happened, what the recorder saw, and what to type next."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def run_summary(record: dict[str, Any], runs_dir: str | Path) -> str:
    """A run for a terminal, the verdict first."""
    from critiqor.storage.paths import paths_for

    run_id = record["run_id"]
    lines = [f"{run_id}  {record['status']}  {record['metadata']['agent_id']}  {record['timestamps']['created_at']}"]
    diagnosis = record.get("diagnosis")
    if not diagnosis:
        return _text([*lines, *_unfinished(record)])
    lines += ["", f"  {record['headline']}"]
    trust = (
        "unknown: the agent was not observed" if record["trust_score"] is None else f"{record['trust_score']} of 100"
    )
    lines.append(f"  trust {trust}, confidence {record['confidence_score']} of 100, {diagnosis['readiness']}")
    outcome = diagnosis["outcome"]
    lines.append(f"  outcome: {outcome['state'].replace('_', ' ')} ({outcome['known_from']})")
    lines.append(f"  cost: {_cost(diagnosis['cost_analysis'])}")
    for finding in diagnosis["failure_analysis"]["findings"]:
        lines += ["", *_finding_lines(finding)]
    notes = _coverage_notes(paths_for(runs_dir).evidence_summary_path(run_id))
    if notes:
        lines += ["", "  What the recorder did not see:", *(f"    · {note}" for note in notes)]
    seal = record["seal"]
    lines += ["", f"  sealed: {seal['events']} events, {seal['digest'][:23]}…   critiqor verify {run_id}"]
    return _text(lines)


def _text(lines: list[str]) -> str:
    # A name with a line break must not look like a line of ours.
    return "\n".join(line.replace("\n", " ") for line in lines)


def _finding_lines(finding: dict[str, Any]) -> list[str]:
    cited = finding["evidence"]
    shown = ", ".join(cited[:3]) + (f" and {len(cited) - 3} more" if len(cited) > 3 else "")
    lost = f"  ({finding['impact']} points of trust)" if finding["impact"] else ""
    return [
        f"  {finding['severity'].upper():8} {finding['title']}{lost}",
        f"           {finding['explanation']}",
        f"           evidence: {shown or 'none'}",
        f"           → {finding['recommendation']}",
    ]


def _unfinished(record: dict[str, Any]) -> list[str]:
    if record["status"] == "ABORTED":
        return ["", "  Aborted; what was recorded is kept.", f"  Next: critiqor diagnose {record['run_id']}"]
    from critiqor.session import owner_is_alive

    run_id = record["run_id"]
    if owner_is_alive(record):
        return ["", "  Being recorded.", f"  Next: critiqor finalize {run_id}"]
    hint = f"  Next: critiqor finalize {run_id}   (or: critiqor abort {run_id})"
    return ["", "  The process that recorded it is gone.", hint]


def _cost(cost: dict[str, Any]) -> str:
    money = "unknown" if cost["cost_usd"] is None else f"${cost['cost_usd']:.4f}"
    tokens = f"{cost['input_tokens']} tokens in, {cost['output_tokens']} out"
    return f"{money}, {tokens}, {cost['model_calls']} model calls, {cost['tool_calls']} tool calls"


def _coverage_notes(document: Path) -> list[str]:
    from msgspec import DecodeError

    from critiqor.errors import BrokenRecordError
    from critiqor.evidence import read_coverage

    try:
        return read_coverage(document).notes
    except FileNotFoundError:
        return ["session.json is gone"]
    except (BrokenRecordError, DecodeError, UnicodeDecodeError, RecursionError):
        return ["session.json was changed since it was sealed"]
