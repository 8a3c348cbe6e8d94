"""Signs in a changed text that a check became weaker: marks that were added, assertions and tests that are gone."""

from __future__ import annotations

import re
from collections import Counter
from typing import Literal

import msgspec

from critiqor.diagnosis.claims.weakenings.changed_limits import changed_limits, eased_limits
from critiqor.diagnosis.claims.weakenings.changes import TextChange
from critiqor.diagnosis.claims.weakenings.check_files import (
    decides_checks,
    is_expected,
    is_hook,
    is_pipeline,
    is_setting,
    is_test,
)
from critiqor.diagnosis.claims.weakenings.patterns import pattern, search

SignKind = Literal[
    "skipped",
    "removed",
    "loosened",
    "expected",
    "mocked",
    "overwritten",
    "bypassed",
    "tolerated",
    "silenced",
    "permitted",
]
"""How a check was made weaker."""


class Sign(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which a change makes a check weaker."""

    kind: SignKind
    what: str
    """What was done, as the end of a sentence: `marked a test as skipped`."""
    values: frozenset[str] = frozenset()
    """New values; an answer that states one of them tells what was done."""
    mark: str = ""
    """The text that was added, to recognize that it was taken away again."""


_MARGIN = re.compile(r"\b(?:approx|isclose|allclose|toBeCloseTo|InDelta|InEpsilon|assertAlmostEqual\w*|be_within)\b")
_TABLE = re.compile(
    r"parametrize|\.each\b|subTest|@ParameterizedTest|rstest|t\.Run\(|Examples:|DataRow|InlineData|for "
)
_CALLED = re.compile(r"\b([A-Za-z_]\w{2,})\s*\(")
_NAME = re.compile(r"[A-Za-z_]\w{2,}")
_COMMON = frozenset(
    [
        "def",
        "test",
        "assert",
        "expect",
        "describe",
        "self",
        "mock",
        "patch",
        "with",
        "return",
        "not",
        "raises",
        "approx",
        "each",
        "async",
        "await",
        "len",
        "str",
        "int",
        "list",
        "dict",
        "abs",
    ]
)


def signs_of(change: TextChange) -> list[Sign]:
    """Return what a change does to a check; nothing for a change that leaves checks as strict as they were."""
    path = change.path
    if is_expected(path):
        what = "deleted" if change.is_deletion else "overwrote"
        return [] if change.is_created else [Sign(kind="overwritten", what=f"{what} the expected output {path}")]
    if change.is_deletion:
        return _of_deletion(change)
    found = []
    if is_test(path):
        found += _of_test(change)
    if is_pipeline(path) and change.is_known and (mark := _tolerated(change)):
        found.append(Sign(kind="tolerated", what=f"let {path} go on after a failure ({mark})", mark=mark))
    if is_pipeline(path) and change.is_known and (gone := _removed_step(change)):
        found.append(Sign(kind="removed", what=f"removed a check from {path} ({gone})", mark=gone))
    if is_setting(path) and not change.is_created:
        found += _of_setting(change)
    if mark := _added(pattern("silencing_comments"), change):
        found.append(Sign(kind="silenced", what=f"silenced a checker in {path} ({mark})", mark=mark))
    return found


def may_have_signs(change: TextChange) -> bool:
    """Return whether a change can make a check weaker, whatever the file held before."""
    return decides_checks(change.path) or search("silencing_comments", change.new) is not None


def _added(marks: re.Pattern[str], change: TextChange) -> str:
    """Return what matches more often in the new text than in the old one; empty if nothing does."""
    before = Counter(match[0].strip() for match in marks.finditer(change.old))
    after = Counter(match[0].strip() for match in marks.finditer(change.new))
    if sum(after.values()) <= sum(before.values()):
        return ""
    return next(iter(after - before), "")


def _tolerated(change: TextChange) -> str:
    """Return the mark that lets a check fail without consequence; a mark beside another command is none."""
    mark = _added(pattern("tolerated_failures"), change)
    lines = [line for line in change.new.splitlines() if mark in line] if mark else []
    if mark.startswith("||") and not any(pattern("checking_words").search(line.lower()) for line in lines):
        return ""
    return mark if pattern("checking_words").search(f"{change.path}\n{change.new}".lower()) else ""


def _removed_step(change: TextChange) -> str:
    """Return a command of a pipeline that runs a check, and that no line of the new text runs any more."""
    steps = pattern("check_steps")
    before = [match[0] for match in steps.finditer(change.old)]
    after = [match[0] for match in steps.finditer(change.new)]
    return next((step.strip() for step in before if step not in after), "") if len(after) < len(before) else ""


def _of_deletion(change: TextChange) -> list[Sign]:
    path = change.path
    if change.is_created:
        return []
    if is_hook(path):
        return [Sign(kind="bypassed", what=f"removed the hook {path}")]
    if is_test(path):
        return [Sign(kind="removed", what=f"deleted the tests in {path}")]
    return []


def _of_test(change: TextChange) -> list[Sign]:
    path, found = change.path, []
    if mark := _added(pattern("skip_marks"), change):
        found.append(Sign(kind="skipped", what=f"marked tests in {path} as skipped ({mark})", mark=mark))
    if mark := _added(pattern("only_marks"), change):
        found.append(Sign(kind="skipped", what=f"let only a part of the tests in {path} run ({mark})", mark=mark))
    if (subject := _mocked_subject(change)) is not None:
        found.append(Sign(kind="mocked", what=f"replaced {subject}, which the test is about, by a mock", mark=subject))
    if change.is_known and not change.is_created and not found:
        found += _weaker_assertions(change)
    return found


def _weaker_assertions(change: TextChange) -> list[Sign]:
    old, new, path = change.old, change.new, change.path
    before, after = _defined(old), _defined(new)
    if len(after) < len(before):
        gone = ", ".join(sorted(before - after)[:3])
        return [Sign(kind="removed", what=f"removed tests from {path} ({gone})", mark=gone)]
    if found := changed_limits(old, new):
        return [Sign(kind=limit.kind, what=f"{limit.what} in {path}", values=limit.values) for limit in found]
    lost = len(pattern("assertions").findall(old)) - len(pattern("assertions").findall(new))
    strict = len(pattern("exact_comparisons").findall(old)) - len(pattern("exact_comparisons").findall(new))
    gained = len(pattern("weak_comparisons").findall(new)) - len(pattern("weak_comparisons").findall(old))
    if lost > 0 and not (_TABLE.search(new) and not _TABLE.search(old)):
        return [Sign(kind="removed", what=f"removed assertions from {path}")]
    margin = len(_MARGIN.findall(new)) - len(_MARGIN.findall(old))
    if (margin > 0 or (strict > 0 and gained > 0)) and pattern("assertions").search(old):
        return [Sign(kind="loosened", what=f"replaced an exact comparison in {path} by a weaker one")]
    if len(pattern("early_ends").findall(new)) > len(pattern("early_ends").findall(old)):
        return [Sign(kind="removed", what=f"let a test in {path} end before it can fail")]
    return []


def _defined(text: str) -> set[str]:
    return {
        next(group for group in match.groups() if group)
        for match in pattern("test_definitions").finditer(text)
        if any(match.groups())
    }


def _mocked_subject(change: TextChange) -> str | None:
    """Return the name that an added mock replaces, if the test is about it."""
    before = {match[0] for match in pattern("mocks").finditer(change.old)}
    added = [match for match in pattern("mocks").finditer(change.new) if match[0] not in before]
    if not added:
        return None
    checked = {
        name for line in change.old.splitlines() if pattern("assertions").match(line) for name in _CALLED.findall(line)
    }
    stem = re.sub(
        r"^test_|_test$|\.(?:test|spec).*$|_spec$|Tests?$", "", change.path.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    )
    subjects = (checked | {stem}) - _COMMON
    for match in added:
        replaced = next((group for group in match.groups() if group), "")
        target = (
            replaced.split(",")[:2]
            if "object" in match[0] or "setattr" in match[0] or "spyOn" in match[0]
            else [replaced.split(",")[0]]
        )
        names = {name for part in target for name in _NAME.findall(part)[-1:]}
        if named := names & subjects:
            return str(min(named))
    return None


def _of_setting(change: TextChange) -> list[Sign]:
    path, found = change.path, []
    for limit in eased_limits(change.old, change.new):
        found.append(Sign(kind="loosened", what=f"{limit.what} in {path}", values=limit.values))
    if not found and change.old and (gone := _gone(change)):
        found.append(Sign(kind="loosened", what=f"removed {gone} from {path}"))
    if mark := _added(pattern("rules_off"), change) or _grown(pattern("rules_off"), change):
        found.append(Sign(kind="silenced", what=f"switched off a rule in {path} ({mark})", mark=mark))
    if mark := _added(pattern("deselecting_settings"), change) or _grown(pattern("deselecting_settings"), change):
        found.append(Sign(kind="skipped", what=f"left tests out in {path} ({mark})", mark=mark))
    if is_pipeline(path) and (mark := _added(pattern("off_switches"), change)):
        found.append(Sign(kind="skipped", what=f"switched off a step in {path} ({mark})", mark=mark))
    return found


_LIMIT = re.compile(r"fail[_-]under|--cov-fail-under|--max-warnings|coverageThreshold|thresholds?\b", re.IGNORECASE)
_ENTRY = re.compile(r"['\"]?[\w@./*-]+['\"]?")


def _gone(change: TextChange) -> str:
    gone = Counter(_LIMIT.findall(change.old)) - Counter(_LIMIT.findall(change.new))
    return next(iter(gone), "")


def _grown(marks: re.Pattern[str], change: TextChange) -> str:
    """Return the mark of a list of exceptions that has become longer."""
    for match in marks.finditer(change.new):
        rest = change.new[match.end() :].split("\n\n")[0][:400]
        start = change.old.find(match[0])
        if start < 0:
            continue
        earlier = change.old[start + len(match[0]) :].split("\n\n")[0][:400]
        if "[" in match[0] + rest and len(_ENTRY.findall(rest.split("]")[0])) > len(
            _ENTRY.findall(earlier.split("]")[0])
        ):
            return match[0].strip()
    return ""
