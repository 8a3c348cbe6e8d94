"""The tools that a recording shows: called, offered to a model, or behind OpenClaw's tool search."""

from __future__ import annotations

import re

from critiqor.model import Event

SEARCH_TOOLS = frozenset(("tool_search", "tool_describe", "tool_call", "tool_search_code"))
"""Tools of OpenClaw through which other tools are found and called."""
MAX_NAMES = 4096
"""Maximum number of names of each kind."""
_LISTED = re.compile(r'\\?"(?:name|id)\\?"\s*:\s*\\?"([\w.:-]+)')
"""Names in the results of the tool search, also if the result is JSON in a text."""


class ToolCatalog:
    """Collects the names of tools, so that nobody is asked to add a tool that is there."""

    def __init__(self) -> None:
        self._direct: set[str] = set()
        """Tools that a model could call by their name."""
        self._deferred: set[str] = set()
        """Tools behind the tool search."""

    def observe_request(self, event: Event) -> None:
        """Add the tools that were offered with a model request."""
        tools = event.payload.get("tools")
        if isinstance(tools, dict):
            _add(self._direct, tools.get("names"))
            _add(self._deferred, tools.get("deferred"))

    def add_call(self, tool: str, *, is_inner: bool) -> None:
        """Add a tool that was called and exists; `is_inner` if another tool called it."""
        names = self._deferred if is_inner else self._direct
        if tool not in names:
            _add(names, [tool])

    def add_listed(self, result: str) -> None:
        """Add the tools that a result of the tool search lists."""
        _add(self._deferred, [name.rpartition(":")[2] for name in _LISTED.findall(result)])

    @property
    def uses_search(self) -> bool:
        """Whether tools can be behind the tool search."""
        return bool(self._deferred) or not self._direct.isdisjoint(SEARCH_TOOLS)

    def is_direct(self, tool: str) -> bool:
        """Whether a tool was offered to a model, or called by its name, anywhere in the recording."""
        return tool in self._direct

    def is_deferred(self, tool: str) -> bool:
        """Whether a tool is behind the tool search."""
        return tool in self._deferred


def _add(names: set[str], new: object) -> None:
    if isinstance(new, list) and len(names) < MAX_NAMES:
        names.update(name for name in new if isinstance(name, str) and name)
