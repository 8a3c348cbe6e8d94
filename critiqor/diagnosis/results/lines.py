"""What the lines of an output say, according to the rules for its programs."""

from __future__ import annotations

import re

import msgspec

from critiqor.diagnosis.results.meaning_struct import MAX_QUOTE, SEVERITY, Meaning, ResultState
from critiqor.diagnosis.results.rules import Rule, RuleSet, candidates

HEAD, TAIL = 1024, 4096
"""Number of characters at the beginning and at the end of a long output that are examined."""
COMMON_TAIL = 1500
"""The same for the rules that apply to any output: there are many, and a script ends with its summary."""
_MAX_LINE = 400
_MAX_TRIES = 24
"""Maximum number of lines that are compared with a rule. The lines are searched from the end."""
_MAX_ITEMS = 200
_END_SIZE = 500
_END_LINES = 6
_BAD = ("bad", "bad2", "bad3", "bad4")
"""Names of groups that say that something failed; a name can only be used once in a pattern."""
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]{0,20}[ -/]?[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[()][0-9A-B])")


class _Hit(msgspec.Struct, frozen=True, gc=False):
    """A line that a rule matches."""

    rule: Rule
    state: ResultState
    start: int
    line: str
    failed: int | None = None
    passed: int | None = None
    total: int | None = None
    items: tuple[str, ...] = ()
    """The names of the items that it is about."""


def plain(text: str) -> str:
    """Return the lines of a text without terminal colours; a carriage return begins one, as in a progress bar."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return text.replace("\r", "\n") if "\r" in text else text


def read_lines(text: str, own: RuleSet, common: RuleSet | None = None, limit: int | None = None) -> Meaning | None:
    """Return what the lines of an output say; None if no rule applies.

    `own` are the rules of its programs, `common` those for any output, and `limit` is the end of what is examined.
    """
    size = len(text) if limit is None else min(limit, len(text))
    if not size:
        return None
    window = _Window(text, max(0, size - TAIL), size)
    hits = [hit for rule in candidates(own, window.lowered) for hit in _hits(rule, window)]
    if common is not None:
        end = _Window(text, max(0, size - COMMON_TAIL), size)
        seen = {hit.rule.data.name for hit in hits}
        found = [rule for rule in candidates(common, end.lowered) if rule.data.name not in seen]
        hits += [hit for rule in found for hit in _hits(rule, end)]
    if not hits and size > TAIL:
        window = _Window(text, 0, HEAD)
        rules = [rule for rule in candidates(own, window.lowered) if not rule.data.at_end]
        hits = [hit for rule in rules for hit in _hits(rule, window)]
    if not hits and common is not None:
        return _table(text[max(0, size - TAIL) : size], max(0, size - TAIL))
    return _decided(hits) if hits else None


_FAILED_COLUMN = re.compile(r"(?<=\s)(?:errors|failed|failures|rejected)(?=\s|$)", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.,-])\d{1,9}(?![\w.,])")


def _table(text: str, offset: int) -> Meaning | None:
    """Return what a table says with a column of failures, such as the summary of a loader; None if there is none."""
    header = next((found for found in _FAILED_COLUMN.finditer(text) if _is_header(text, found)), None)
    if header is None:
        return None
    start = text.rfind("\n", 0, header.start()) + 1
    left, right = header.start() - start, header.end() - start
    counted: tuple[int, str, int] | None = None
    position = text.find("\n", header.end()) + 1
    while position > 0:
        end = text.find("\n", position)
        line = text[position : end if end >= 0 else len(text)]
        # Numbers stand below the name of their column, flush with its left or its right end.
        number = next((one for one in _NUMBER.finditer(line) if one.end() == right or one.start() == left), None)
        if number is not None and (counted is None or int(number[0]) >= counted[0]):
            counted = (int(number[0]), line.strip()[:MAX_QUOTE], position + len(line) - len(line.lstrip()))
        position = end + 1 if end >= 0 else 0
    if counted is None or not counted[0]:
        return None
    number_failed, quote, place = counted
    reason = f"{number_failed} {header[0].lower()}"
    return Meaning("failure", reason, quote, offset + place, "table", number_failed)


def _is_header(text: str, found: re.Match[str]) -> bool:
    """Return whether a word is one of several in a line of column names: words with wide gaps, without numbers."""
    start = text.rfind("\n", 0, found.start()) + 1
    end = text.find("\n", found.end())
    line = text[start : end if end >= 0 else len(text)]
    return not any(map(str.isdigit, line)) and len(re.split(r"\s{2,}|\t", line.strip())) >= MIN_COLUMNS


MIN_COLUMNS = 3
"""Minimum number of columns of a table."""


class _Window:
    """The part of an output that is examined."""

    __slots__ = ("begin", "lowered", "text", "whole")

    def __init__(self, whole: str, begin: int, end: int) -> None:
        self.whole = whole
        self.begin = begin
        self.text = whole[begin:end]
        lowered = self.text.lower()
        # A few letters of other alphabets become longer in lower case, which would shift all positions.
        self.lowered = lowered if len(lowered) == len(self.text) else self.text


def _hits(rule: Rule, window: _Window) -> list[_Hit]:
    data, lowered = rule.data, window.lowered
    if data.needs and data.needs not in window.whole:
        return []
    begin = _end_of_output(lowered) if data.at_end else 0
    if data.each:
        return _items(rule, window, begin)
    best: _Hit | None = None
    for literal in data.has:
        stop = len(lowered)
        for _ in range(_MAX_TRIES):
            found = lowered.rfind(literal, begin, stop)
            if found < 0 or (best is not None and found + window.begin < best.start):
                break
            start, line = _line_at(window.text, found)
            if hit := _hit(rule, start + window.begin, line):
                best = hit
                break
            stop = lowered.rfind("\n", 0, found) + 1
    return [best] if best else []


def _items(rule: Rule, window: _Window, begin: int) -> list[_Hit]:
    seen: dict[int, _Hit] = {}
    for literal in rule.data.has:
        position = begin
        for _ in range(_MAX_ITEMS):
            found = window.lowered.find(literal, position)
            if found < 0:
                break
            start, line = _line_at(window.text, found)
            if start not in seen and (hit := _hit(rule, start + window.begin, line)):
                seen[start] = hit
            position = max(found + 1, start + len(line))
    return [seen[start] for start in sorted(seen)]


def _line_at(text: str, position: int) -> tuple[int, str]:
    """Return the line around a position without spaces at its ends, and where it begins."""
    start = text.rfind("\n", 0, position) + 1
    stop = text.find("\n", position)
    line = text[start : stop if stop >= 0 else None]
    stripped = line.lstrip()
    start += len(line) - len(stripped)
    return start, stripped[:_MAX_LINE].rstrip()


def _end_of_output(text: str) -> int:
    """Return where the last lines of an output begin."""
    position = len(text)
    for _ in range(_END_LINES):
        position = text.rfind("\n", max(0, len(text) - _END_SIZE), position)
        if position < 0:
            return max(0, len(text) - _END_SIZE)
    return position + 1


def _hit(rule: Rule, start: int, line: str) -> _Hit | None:
    found = rule.pattern.match(line)
    if found is None:
        return None
    groups = found.groupdict()
    names = ("failed", "passed", "total")
    failed, passed, total = (
        _number(groups.get(name), counts, line) for name, counts in zip(names, rule.counts, strict=True)
    )
    items = (name,) if (name := groups.get("item") or groups.get("item2")) else ()
    if rule.data.state != "counts":
        return _Hit(rule, rule.data.state, start, line, failed, passed, total, items)
    state: ResultState = "success"
    if failed or any(groups.get(name) for name in _BAD):
        state = "failure"
    elif groups.get("wait") or groups.get("wait2"):
        state = "not_final"
    elif passed is not None and total is not None and passed < total:
        state = rule.data.short
    return _Hit(rule, state, start, line, failed, passed, total, items)


def _number(group: str | None, pattern: re.Pattern[str] | None, line: str) -> int | None:
    if group:
        return int(group.replace(",", "").replace("_", ""))
    if pattern is None:
        return None
    numbers = [int(number) for number in pattern.findall(line)]
    return sum(numbers) if numbers else None


def _decided(hits: list[_Hit]) -> Meaning:
    by_tool: dict[str, list[_Hit]] = {}
    for hit in hits:
        by_tool.setdefault(hit.rule.data.tool, []).append(hit)
    verdicts = [_of_tool(found) for found in by_tool.values()]
    if len(verdicts) > 1:
        last = max((hit.start for hit in verdicts if hit.state == "success" and not hit.rule.data.weak), default=-1)
        verdicts = [hit for hit in verdicts if not (hit.rule.data.weak and hit.start < last)] or verdicts
    worst = max(SEVERITY[hit.state] for hit in verdicts)
    return _meaning(_most_informative([hit for hit in verdicts if SEVERITY[hit.state] == worst]))


def _of_tool(hits: list[_Hit]) -> _Hit:
    """Return what one tool says: its last line, or the worst of its items."""
    if any(hit.rule.data.each for hit in hits):
        state = max((hit.state for hit in hits), key=SEVERITY.__getitem__)
        alike = [hit for hit in hits if hit.state == state]
        items = [hit for hit in alike if hit.rule.data.each]
        return _joined(items, hits) if items else _most_informative(alike)
    last = max(hits, key=lambda hit: (hit.start, SEVERITY[hit.state]))
    return _most_informative([hit for hit in hits if hit.state == last.state])


def _joined(items: list[_Hit], hits: list[_Hit]) -> _Hit:
    """Return the last of several items with the numbers of all."""
    every = [hit for hit in hits if hit.rule.data.each]
    failed = _sum([hit.failed for hit in every])
    if failed is None and items[-1].state == "failure" and items[-1].rule.data.state == "counts":
        failed = len(items)  # several error messages, in contrast, can be about one thing
    passed = _sum([hit.passed for hit in every])
    total = _sum([hit.total for hit in every])
    names = tuple(dict.fromkeys(name for hit in items for name in hit.items))
    return msgspec.structs.replace(items[-1], failed=failed, passed=passed, total=total, items=names)


def _sum(numbers: list[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _most_informative(hits: list[_Hit]) -> _Hit:
    """Return the last statement with numbers, else the last one."""
    with_counts = [hit for hit in hits if hit.failed is not None or hit.passed is not None]
    return max(with_counts or hits, key=lambda hit: hit.start)


def _meaning(hit: _Hit) -> Meaning:
    return Meaning(
        hit.state,
        _reason(hit),
        hit.line[:MAX_QUOTE],
        hit.start,
        hit.rule.data.name,
        hit.failed,
        hit.passed,
        hit.total,
        hit.items if hit.state != "success" else (),
    )


def _reason(hit: _Hit) -> str:
    data = hit.rule.data
    if data.says:
        text = data.says
    elif hit.state == "failure" and hit.failed:
        text = f"{hit.failed} failed"
    elif hit.passed is not None and hit.total is not None and hit.passed < hit.total:
        text = f"{hit.passed} of {hit.total}"
    elif hit.state == "success" and hit.passed:
        text = f"{hit.passed} passed"
    elif hit.state == "success" and hit.failed == 0:
        text = "0 failed"
    else:
        text = hit.line if len(hit.line) <= 80 else hit.line[:79] + "…"
    return f"{data.tool}: {text}" if data.tool else text
