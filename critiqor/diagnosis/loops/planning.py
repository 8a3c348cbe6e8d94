"""Work that does not begin: a plan is written again and again, or a folder is only looked at from outside."""

from __future__ import annotations

import re
from collections import Counter

from critiqor.diagnosis.drafts.call_groups import CallGroup
from critiqor.diagnosis.hazards.words import words
from critiqor.diagnosis.loops.repetitions import is_orientation
from critiqor.diagnosis.signals.tools import programs_of
from critiqor.spans.calls import Kind, ToolCall

MIN_REWRITES = 5
"""Minimum number of times that files which the user does not name are written, with nothing else in between."""
MIN_SURVEYS = 7
"""Minimum number of calls that only list and measure, in an agent run that does nothing else."""
MIN_SAME_PLACE = 5
"""Minimum number of them that are about the same place."""
_WRITING = (Kind.CHANGE, Kind.THOUGHT)
_PATH = re.compile(r'"(?:path|file_?[pP]ath|file_?[nN]ame|file)":"((?:[^"\\]|\\.)+)"')
_FILE = re.compile(r"[\w-]+\.[a-z]\w{0,4}\b(?![/@])")
_SURVEY = re.compile(r"(?:sudo )?(?:ls|tree|stat|file|du|wc|find(?!.* -(?:exec|delete|ok))|date|pwd|df)(?:\s|$)")
_FILTER = re.compile(r"(?:sort|uniq|head|tail|wc|grep|cut|column|nl|xargs (?:ls|wc|stat|file|du))(?:\s|$)")
_LISTING = re.compile(r"(?:ls|glob|tree|list_?(?:dir|directory|files|folder))", re.IGNORECASE)
_OPERAND = re.compile(r"\s(?![-'\"%…])([\w.~/*-]+)")


class Planning:
    """Searches the calls since a request for preparations that are repeated instead of the work."""

    def __init__(self, request: str) -> None:
        self._request = request.lower()
        self._wanted = set(_FILE.findall(self._request))
        """Files that the user names and that no call has touched."""
        self._paths: set[str] = set()
        """Files that were written, other than those that the user names."""
        self._rewrites: CallGroup | None = None
        self._is_rewriting = False
        """Whether one of these files was written twice."""
        self._surveys: CallGroup | None = None
        self._places: Counter[str] = Counter()
        self._has_worked = False
        """Whether a call did more than to list, measure and plan."""

    def add(self, call: ToolCall) -> None:
        """Add a call of any kind."""
        if self._wanted:
            self._wanted -= {name for name in self._wanted if name in call.arguments.lower() and _touches(call, name)}
        if self._has_worked and self._rewrites is None and call.kind not in _WRITING:
            return
        path = _written(call)
        if path and not self._is_named(path):
            if self._rewrites is None:
                self._rewrites, self._paths, self._is_rewriting = CallGroup(call), set(), False
            else:
                self._rewrites.add(call)
            self._is_rewriting = self._is_rewriting or path in self._paths
            self._paths.add(path)
            return
        reads_plan = any(f'"{each}"' in call.arguments for each in self._paths)
        if is_orientation(call) or call.kind is Kind.THOUGHT or reads_plan:
            self._survey(call)
            return
        if _is_survey(call):
            self._survey(call)
        else:
            self._has_worked = True
        self._rewrites = None

    def _survey(self, call: ToolCall) -> None:
        if self._has_worked or not _is_survey(call):
            return
        if self._surveys is None:
            self._surveys = CallGroup(call)
        else:
            self._surveys.add(call)
        self._places.update(_places(call))

    def _is_named(self, path: str) -> bool:
        return path.rpartition("/")[2].lower() in self._request

    @property
    def rewrites(self) -> CallGroup | None:
        """The writes that the agent run ends with, if there are enough, and a file that the user wants is untouched."""
        group = self._rewrites
        is_plan = group is not None and len(group) >= MIN_REWRITES and self._is_rewriting and bool(self._wanted)
        return group if is_plan else None

    @property
    def surveys(self) -> CallGroup | None:
        """The calls that only list and measure one place, if there is nothing else."""
        group = self._surveys
        if group is None or self._has_worked or len(group) < MIN_SURVEYS:
            return None
        if max(self._places.values(), default=0) < MIN_SAME_PLACE:
            return None
        # Listing and measuring can be all that was asked for.
        return group if any(words(wish).within(self._request) for wish in ("produce", "act", "send")) else None


def _written(call: ToolCall) -> str:
    """Return the file that a call writes as a whole; the plan if it writes the agent's own list of steps."""
    if call.failed or call.kind not in _WRITING:
        return ""
    if call.kind is Kind.THOUGHT:
        return f"\0{call.tool}" if "plan" in call.tool.lower() or "todo" in call.tool.lower() else ""
    found = _PATH.search(call.arguments) if '"content":' in call.arguments else None
    return found[1] if found else ""


def _touches(call: ToolCall, name: str) -> bool:
    """Return whether a call is about a file, and does not only mention it in what it writes."""
    if _is_survey(call):
        return False
    found = _PATH.search(call.arguments) if call.kind in _WRITING else None
    return found is None or found[1].lower().endswith(name)


def _is_survey(call: ToolCall) -> bool:
    programs = programs_of(call.arguments)
    if not programs:
        return call.kind is Kind.LOOKUP and _LISTING.fullmatch(call.tool) is not None
    first, *rest = programs
    is_first = _SURVEY.match(first) is not None
    return is_first and all(_SURVEY.match(each) or _FILTER.match(each) for each in rest)


def _places(call: ToolCall) -> set[str]:
    """Return the places that a call lists or measures."""
    programs = programs_of(call.arguments)
    if not programs:
        found = _PATH.search(call.arguments)
        return {found[1].strip("/")} if found else set()
    operands = (operand.rstrip("/*").removeprefix("./") for operand in _OPERAND.findall(programs[0]))
    return {operand for operand in operands if operand}
