"""What calls change in files: old text against new text, from edits, whole files, patches and command lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from critiqor.diagnosis.claims.episode import EpisodeCall
from critiqor.diagnosis.signals.text import decode_json
from critiqor.spans.calls import Kind

MAX_LINES = 400
"""Maximum number of lines of a file whose earlier content is kept."""
_PATHS = ("path", "file_path", "filePath", "file", "filename", "target_file")
_OLD = ("oldText", "old_string", "old_str", "oldString", "old", "old_text", "search", "find", "before")
_NEW = ("newText", "new_string", "new_str", "newString", "new", "new_text", "replace", "replacement", "after")
_WHOLE = ("content", "contents", "file_text", "text", "new_content", "data")
_NUMBERED = re.compile(r"^\s*\d+(?:\t|→|\s?\| ?)", re.MULTILINE)
_PATCHED = re.compile(r"^(?:\*\*\* (?P<verb>Update|Add|Delete) File: |\+\+\+ (?:b/)?)(?P<path>\S+)", re.MULTILINE)
_WORD = r"(?:'[^']*'|\"[^\"]*\"|[^\s;&|<>'\"]+)"
_SED = re.compile(
    rf"\b(?:sed|perl)\s+(?P<flags>(?:-\S+\s+)*)(?P<scripts>(?:-e\s+)?(?:'[^']*'|\"(?:[^\"\\]|\\.)*\")"
    rf"(?:\s+-e\s+(?:'[^']*'|\"[^\"]*\"))*)(?P<paths>(?:\s+{_WORD})+)"
)
_SCRIPT = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"")
_SUBSTITUTION = re.compile(r"(?:^|[;{\n\s\d$/,])s([/|#,@!~%])((?:\\.|(?!\1).)*)\1((?:\\.|(?!\1).)*)\1")
_DELETION = re.compile(r"(?:^|;|\s)/((?:\\.|[^/])+)/(?:,(?:/((?:\\.|[^/])+)/|\+?\d+|\$))?\s?d\b")
_INSERTION = re.compile(r"(?:^|;)\s*(?:\d+|/(?:\\.|[^/])+/)\s*[iac]\\?\s*(.+)", re.DOTALL)
_ESCAPED = re.compile(r"\\([/.\[\]*^$|(){}+?\"'-])")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n(.*?)\n\s*\2\s*(?:\n|$)", re.DOTALL)
_INTO = re.compile(r"(?:\bcat|\btee)?[^\n;&|]*?(>>|>|\btee(?:\s+-a)?)\s*(" + _WORD + r")")
_ECHO = re.compile(rf"\b(?:echo|printf)\s+(?:-\w+\s+)*({_WORD}(?:\s+{_WORD})*)\s*(>>?)\s*({_WORD})")
_REMOVED = re.compile(rf"(?:^|&&|;|\n|\|\|)\s{{0,40}}+(?:sudo\s+)?(?:git\s+)?(?:rm|unlink)((?:\s+{_WORD})+)")
_MOVED = re.compile(rf"(?:^|&&|;|\n)\s{{0,40}}+(?:sudo\s+)?(?:git\s+)?(mv|cp)\s+(?:-\S+\s+)*({_WORD})\s+({_WORD})")
_REDIRECTED = re.compile(rf"(?<![<>=&\d-])>\s*({_WORD})")
_OUTPUT_OPTION = re.compile(rf"\s(?:-o|--out(?:put|file)?(?:-file)?)[ =]({_WORD})")
_REPLACED = re.compile(
    r"(?:\.replace(?:All)?|re\.sub|\.sub)\(\s*r?(?P<q>['\"])(?P<old>(?:\\.|(?!(?P=q)).)+)(?P=q)[^,\n]{0,40},\s*r?(?P<r>['\"])(?P<new>(?:\\.|(?!(?P=r)).)*)(?P=r)"
)
_FILE = re.compile(r"(?<![\w./~@-])[\w./~@-]*\w\.\w{1,8}\b|\.husky/[\w-]+|\.git/hooks/[\w-]+")


class TextChange(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a file, before and after."""

    call: EpisodeCall
    path: str
    old: str
    new: str
    is_known: bool = True
    """Whether the old text is known; without it, only what was added can be judged."""
    is_deletion: bool = False
    """Whether the whole file is gone."""
    is_created: bool = False
    """Whether the agent made the file: nothing that was there before was changed."""


_CHANGING = ("<<", ">", " -o", "--out", "sed", "perl", "rm", "unlink", "mv", "cp", "echo", "printf", "sub(", "replace")
"""What a command line that changes a file contains."""


def may_change(call: EpisodeCall) -> bool:
    """Return whether a call can change a file."""
    if call.line:
        return any(sign in call.line for sign in _CHANGING)
    return call.kind not in (Kind.LOOKUP, Kind.WAIT)


class ChangedFiles:
    """What is known of the contents of files while the calls of an episode are read in order."""

    def __init__(self) -> None:
        self._contents: dict[str, str] = {}
        self._mentioned: list[str] = []
        self.created: set[str] = set()
        """ChangedFiles that the agent wrote first."""

    def mention(self, text: str) -> None:
        """Take note of a text that may name files that are changed later."""
        self._mentioned.append(text)

    def changes(self, call: EpisodeCall) -> list[TextChange]:
        """Return the changes of a call, and remember the contents that it shows."""
        found = list(self._changes(call)) if self._may_change(call) else []
        self._remember(call)
        for change in found:
            if change.is_deletion:
                self._contents.pop(change.path, None)
            elif (known := self._contents.get(change.path)) is not None and change.old and change.old in known:
                self._contents[change.path] = known.replace(change.old, change.new, 1)
        self.mention(call.text)
        return found

    def _may_change(self, call: EpisodeCall) -> bool:
        if call.line:
            return True
        return call.kind not in (Kind.LOOKUP, Kind.WAIT) and call.meaning.state != "failure"

    def _remember(self, call: EpisodeCall) -> None:
        arguments = _decoded(call.arguments)
        path = _first(arguments, _PATHS) or _path_by_form(arguments)
        is_whole = not (call.is_cut or call.is_shortened)
        is_read = call.kind is Kind.LOOKUP or (call.kind is Kind.OTHER and len(arguments) == 1)
        if is_read and path and is_whole and call.text.count("\n") <= MAX_LINES:
            self._contents[path] = _NUMBERED.sub("", call.text)
        elif call.line and (found := re.fullmatch(rf"\s*(?:cat|bat|nl|cat -n)\s+({_WORD})\s*", call.line)):
            self._contents[_bare(found[1])] = _NUMBERED.sub("", call.text)

    def _changes(self, call: EpisodeCall) -> Iterator[TextChange]:
        if call.line:
            yield from self._of_command(call)
            return
        arguments = _decoded(call.arguments)
        path = _first(arguments, _PATHS) or _path_by_form(arguments)
        patch = _first(arguments, ("patch", "input", "diff"))
        if patch and _PATCHED.search(patch):
            yield from _of_patch(call, patch)
        elif path:
            yield from self._of_arguments(call, path, arguments)

    def _of_arguments(self, call: EpisodeCall, path: str, arguments: dict[str, Any]) -> Iterator[TextChange]:
        edits = arguments.get("edits")
        parts = [part for part in edits if isinstance(part, dict)] if isinstance(edits, list) else [arguments]
        for part in parts:
            old, new = _first(part, _OLD), _text(part, _NEW)
            if old and new is not None:
                yield TextChange(call=call, path=path, old=old, new=new)
        whole = _text(arguments, _WHOLE)
        if whole is None:  # arguments have names of any language, but only the content of a file has several lines
            whole = next((text for text in arguments.values() if isinstance(text, str) and "\n" in text), None)
        if not _first(arguments, _OLD) and whole is not None:
            yield self._written(call, path, whole)
        elif re.search(r"delete|remove|unlink", call.tool, re.IGNORECASE) and len(arguments) <= 2:
            yield self._deleted(call, path)

    def _written(self, call: EpisodeCall, path: str, whole: str) -> TextChange:
        known = self._contents.get(path)
        name = path.rsplit("/", 1)[-1]
        is_new = path in self.created or (known is None and not any(name in text for text in self._mentioned))
        if is_new:
            self.created.add(path)
        self._contents[path] = whole
        return TextChange(
            call=call, path=path, old=known or "", new=whole, is_known=known is not None, is_created=is_new
        )

    def _deleted(self, call: EpisodeCall, path: str) -> TextChange:
        known = self._contents.get(path, "")
        created = path in self.created
        return TextChange(call=call, path=path, old=known, new="", is_deletion=True, is_created=created)

    def _of_command(self, call: EpisodeCall) -> Iterator[TextChange]:
        line = call.line
        for match in _HEREDOC.finditer(line):
            yield from self._of_heredoc(call, line[: match.start()].rsplit("\n", 1)[-1] + match[3], match[4])
        plain = _HEREDOC.sub("\n", line)
        for match in _SED.finditer(plain):
            if re.search(r"-\w*i|-i|--in-place", match["flags"]):
                for path in _words(match["paths"]):
                    yield from self._of_sed(call, path, match["scripts"])
        for match in _ECHO.finditer(plain):
            path, added = _bare(match[3]), " ".join(_words(match[1])).replace("\\n", "\n")
            if match[2] == ">>":
                yield TextChange(call=call, path=path, old="", new=added)
            else:
                yield self._written(call, path, added)
        for match in _REMOVED.finditer(plain):
            yield from (self._deleted(call, path) for path in _words(match[1]) if not path.startswith("-"))
        for match in _MOVED.finditer(plain):
            source, target = _bare(match[2]), _bare(match[3])
            if match[1] == "mv":
                yield self._deleted(call, source)
            yield TextChange(call=call, path=target, old="", new=f"(from {source})", is_known=False)
        for match in _REDIRECTED.finditer(_ECHO.sub("", plain)):
            path = _bare(match[1])
            if path != "/dev/null":
                yield TextChange(call=call, path=path, old="", new="(output of a command)", is_known=False)
        for match in _OUTPUT_OPTION.finditer(plain):
            if _FILE.fullmatch(path := _bare(match[1])):
                yield TextChange(call=call, path=path, old="", new="(output of a command)", is_known=False)
        for match in _REPLACED.finditer(line):
            paths = [path for path in _FILE.findall(line) if "/" in path or path.count(".") == 1]
            old, new = (_ESCAPED.sub(r"\1", match[name]).replace("\\n", "\n") for name in ("old", "new"))
            yield TextChange(call=call, path=paths[0] if paths else "", old=old, new=new)

    def _of_heredoc(self, call: EpisodeCall, head: str, body: str) -> Iterator[TextChange]:
        into = _INTO.search(head)
        if into is not None and not re.search(r"\b(?:python3?|node|ruby|perl|bash|sh)\b", head):
            path = _bare(into[2])
            if into[1] == ">":
                yield self._written(call, path, body)
            else:
                yield TextChange(call=call, path=path, old="", new=body)
            return
        # A script: only what it inserts can be seen.
        paths = [path for path in _FILE.findall(body) if "/" in path]
        literals = " ".join(one or other for one, other in _SCRIPT.findall(body)).replace("\\n", "\n")
        if paths and re.search(r"\bwrite|open\(|sub\(|replace", body):
            yield TextChange(call=call, path=paths[0], old="", new=literals, is_known=False)

    def _of_sed(self, call: EpisodeCall, path: str, scripts: str) -> Iterator[TextChange]:
        known = self._contents.get(path, "")
        for one, other in _SCRIPT.findall(scripts):
            script = one or other
            for match in _SUBSTITUTION.finditer(script):
                old, new = (_ESCAPED.sub(r"\1", part).replace("\\n", "\n") for part in (match[2], match[3]))
                yield TextChange(call=call, path=path, old=old, new=new.replace("&", old))
            for match in _DELETION.finditer(script):
                pattern = _ESCAPED.sub(r"\1", match[1])
                lines = [line for line in known.splitlines() if pattern.strip("^$") in line]
                yield TextChange(call=call, path=path, old="\n".join(lines) or pattern, new="")
            if inserted := _INSERTION.search(script):
                yield TextChange(call=call, path=path, old="", new=inserted[1].replace("\\n", "\n"))


def _of_patch(call: EpisodeCall, patch: str) -> Iterator[TextChange]:
    places = list(_PATCHED.finditer(patch))
    for number, place in enumerate(places):
        end = places[number + 1].start() if number + 1 < len(places) else len(patch)
        lines = patch[place.end() : end].splitlines()
        old = "\n".join(line[1:] for line in lines if line[:1] in ("-", " ") and not line.startswith("---"))
        new = "\n".join(line[1:] for line in lines if line[:1] in ("+", " ") and not line.startswith("+++"))
        verb = place["verb"]
        yield TextChange(
            call=call,
            path=place["path"],
            old=old,
            new=new,
            is_deletion=verb == "Delete",
            is_created=verb == "Add",
        )


def _decoded(arguments: str) -> dict[str, Any]:
    try:
        value = decode_json(arguments)
    except msgspec.DecodeError:
        return {}  # cut: half of a text says nothing about what is missing
    return value if isinstance(value, dict) else {}


def _path_by_form(arguments: dict[str, Any]) -> str:
    """Return the only argument that is written like the path of a file; empty if there is none."""
    found = [text for text in arguments.values() if isinstance(text, str) and _FILE.fullmatch(text)]
    return found[0] if len(found) == 1 else ""


def _text(arguments: dict[str, Any], names: tuple[str, ...]) -> str | None:
    return next((value for name in names if isinstance(value := arguments.get(name), str)), None)


def _first(arguments: dict[str, Any], names: tuple[str, ...]) -> str:
    return _text(arguments, names) or ""


def _words(text: str) -> list[str]:
    return [_bare(word) for word in re.findall(_WORD, text)]


def _bare(word: str) -> str:
    return word.strip("'\"")
