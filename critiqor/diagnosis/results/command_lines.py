"""Shell command lines: their commands, how they are connected, and whose exit code was recorded."""

from __future__ import annotations

import re

import msgspec

MAX_LINE = 6000
"""Maximum number of characters of a command line that are examined."""
_MAX_COMMANDS = 64


class Command(msgspec.Struct, frozen=True, gc=False):
    """One command of a command line."""

    words: tuple[str, ...]
    """Program and arguments, without quotes, assignments and redirections."""
    before: str
    """What connects it with the command before it: `&&`, `||`, `;`, `|`, `&`, or nothing for the first one."""
    covered: bool = False
    """Whether an exit code 0 of the whole line means that this command ended with 0."""
    ends_line: bool = False
    """Whether a non-zero exit code of the whole line can be the exit code of this command."""
    negated: bool = False
    """Whether `!` reverses its exit code."""
    redirected: bool = False
    """Whether its output goes into a file and is not shown."""
    input_text: str = ""
    """The here-document that it reads."""


class PrintedCode(msgspec.Struct, frozen=True, gc=False):
    """A command such as `echo "exit=$?"` that prints the exit code of the commands before it."""

    pattern: re.Pattern[str]
    """Matches the printed line; its first group is the exit code."""
    commands: tuple[Command, ...]
    """The commands before it, covered by the printed code."""


class EchoedVerdict(msgspec.Struct, frozen=True, gc=False):
    """The texts of `command && echo GOOD || echo BAD`, which print whether the command succeeded."""

    good: str
    bad: str


class CommandLine(msgspec.Struct, frozen=True, gc=False):
    """A parsed command line."""

    commands: tuple[Command, ...]
    printed: PrintedCode | None = None
    echoed: EchoedVerdict | None = None


_SPECIAL = re.compile(r"[^\w\s./=:@%+,~^\[\]*?-]|[\n\\]|(?:^|\s)\w+=")
"""What a plain command line does not contain; `split` is enough for one."""
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+|\\\n)
    |(?P<heredoc>\d?<<-?[ \t]*(?P<quote>['"]?)(?P<mark>\w+)(?P=quote))
    |(?P<redirect>(?:\d+|&)?(?:>>|>\||>&|<<<|<&|<>|>|<)[ \t]*(?:\d+|-)?(?=(?P<bare>[\s;|&)]|$)?))
    |(?P<operator>&&|\|\||\|&|;;|[;|&\n()])
    |(?P<single>\$?'[^']*')
    |(?P<double>"(?:[^"\\]|\\.)*")
    |(?P<substitution>\$\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|`[^`]*`|[<>]\([^()]*\))
    |(?P<plain>(?:[^\s'"\\;|&<>()`$]|\\.|\$(?![('])|\$(?=')(?!'))+)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPE_IN_QUOTES = re.compile(r'\\([\\"$`\n])')
_ASSIGNMENT = re.compile(r"\w+\+?=")
_DIGITS_AT_END = re.compile(r"\d+$")
_OPENING = frozenset(("then", "do", "else", "if", "elif", "while", "until", "{", "time", "[["))
_CLOSING = frozenset(("fi", "done", "esac", "}"))
_COMPOUND = frozenset(("if", "elif", "while", "until", "for", "case", "select", "function"))


def parse_command_line(line: str) -> CommandLine:
    """Return the commands of a command line. A line that no shell would accept is parsed as far as possible."""
    if len(line) > MAX_LINE:
        line = line[:MAX_LINE]
    if not _SPECIAL.search(line):
        words = tuple(line.split())
        return CommandLine((Command(words, "", True, True),) if words else ())
    return _Parser(line).parsed()


class _Draft:
    """A command while it is read."""

    __slots__ = ("assigned", "before", "blocks", "input_text", "negated", "redirected", "words")

    def __init__(self, before: str, blocks: int) -> None:
        self.words: list[str] = []
        self.assigned: list[str] = []
        self.before = before
        self.blocks = blocks
        """Number of `if`, `for` and similar blocks around it."""
        self.negated = self.redirected = False
        self.input_text = ""

    def built(self, covered: bool, ends_line: bool) -> Command:
        return Command(
            tuple(self.words), self.before, covered, ends_line, self.negated, self.redirected, self.input_text
        )


class _Parser:
    def __init__(self, line: str) -> None:
        self.line = line
        self.drafts: list[_Draft] = []
        self.blocks = 0
        self.ends_in_background = False

    def parsed(self) -> CommandLine:
        self._read()
        drafts = self.drafts
        printed = _printed_code(drafts)
        return CommandLine(_covered(drafts, self.ends_in_background), printed, _echoed_verdict(drafts))

    def _read(self) -> None:
        current = _Draft("", 0)
        word: str | None = None
        expects_file = ""
        marks: list[tuple[str, _Draft]] = []
        position, line = 0, self.line
        while position < len(line) and len(self.drafts) < _MAX_COMMANDS:
            token = _TOKEN.match(line, position)
            if token is None:
                break
            kind, text = token.lastgroup, token[0]
            if kind == "bare" or kind == "mark":
                kind = "redirect" if kind == "bare" else "heredoc"
            position = token.end()
            if kind in ("plain", "single", "double", "substitution", "other"):
                if kind == "plain" and word is None and text[0] == "#":
                    position = line.find("\n", position)
                    position = len(line) if position < 0 else position
                    continue
                piece = _unquoted(kind or "", text)
                word = piece if word is None else word + piece
                continue
            if word is not None:
                if kind in ("redirect", "heredoc") and word.isdigit():
                    word = None  # the number of a stream: `2 >file` is written as `2>file`
                elif expects_file:
                    expects_file = ""
                else:
                    self._add(current, word)
                word = None
            if kind == "redirect":
                if text.rstrip()[-1] in "<>|" or (text[-1] == "&"):
                    expects_file = text
                if ">" in text and not text.startswith("2") and "&" not in text[1:]:
                    current.redirected = True
                if "<<<" in text:
                    expects_file = ""
            elif kind == "heredoc":
                marks.append((token["mark"], current))
            elif kind == "operator":
                if text == "\n" and marks:
                    position = self._read_heredocs(marks, position)
                current = self._next(current, text)
        if word is not None and not expects_file:
            self._add(current, word)
        self._next(current, "")

    def _add(self, current: _Draft, word: str) -> None:
        if current.words:
            current.words.append(word)
            return
        if word == "!":
            current.negated = not current.negated
        elif word in _CLOSING:
            if word != "}":
                self.blocks = max(0, self.blocks - 1)
        elif word in _OPENING:
            if word in ("if", "while", "until"):
                self.blocks += 1
        elif _ASSIGNMENT.match(word):
            current.assigned.append(word)
        else:
            if word in ("for", "case", "select"):
                self.blocks += 1
            current.blocks = self.blocks
            current.words.append(word)

    def _next(self, current: _Draft, operator: str) -> _Draft:
        """Complete a command and begin the one after the operator."""
        if current.words and current.words[0] in _COMPOUND:
            current.words.clear()  # the head of a loop runs nothing
        if current.words or current.assigned:
            self.drafts.append(current)
            self.ends_in_background = operator == "&"
            before = {"\n": ";", ";;": ";", "|&": "|", "(": ";", ")": ";"}.get(operator, operator)
            return _Draft(before, self.blocks)
        # A line break after an operator, a bracket or an empty command changes nothing.
        if operator in ("&&", "||", "|", "|&") or (operator == "&" and current.before == ""):
            current.before = operator[:2] if operator != "|&" else "|"
        return current

    def _read_heredocs(self, marks: list[tuple[str, _Draft]], position: int) -> int:
        for mark, draft in marks:
            end = re.compile(rf"^\t*{mark}$", re.MULTILINE).search(self.line, position)
            draft.input_text = self.line[position : end.start() if end else len(self.line)]
            position = end.end() if end else len(self.line)
        marks.clear()
        return position


def _unquoted(kind: str, text: str) -> str:
    if kind == "single":
        return text[2:-1] if text[0] == "$" else text[1:-1]
    if kind == "double":
        return _ESCAPE_IN_QUOTES.sub(r"\1", text[1:-1]) if "\\" in text else text[1:-1]
    return _ESCAPE.sub(r"\1", text) if kind == "plain" and "\\" in text else text


def _covered(drafts: list[_Draft], ends_in_background: bool) -> tuple[Command, ...]:
    """Return the commands with whether the exit code of the line belongs to them."""
    marks = _coverage(drafts, ends_in_background)
    return tuple(
        draft.built(covered, ends_line)
        for draft, (covered, ends_line) in zip(drafts, marks, strict=True)
        if draft.words
    )


def _coverage(drafts: list[_Draft], ends_in_background: bool) -> list[tuple[bool, bool]]:
    count = len(drafts)
    marks = [(False, False)] * count
    if ends_in_background or not count:
        return marks
    pipefail = errexit = False
    lists: list[tuple[int, int, bool, bool]] = []
    begin = 0
    for index, draft in enumerate(drafts):
        if draft.words[:1] == ["set"]:
            options = draft.words[1:]
            pipefail = pipefail or "pipefail" in options
            errexit = errexit or any(re.match(r"-\w*e", option) for option in options) or "errexit" in options
        if index and draft.before in (";", "&"):
            lists.append((begin, index, errexit and draft.before == ";", pipefail))
            begin = index
    lists.append((begin, count, True, pipefail))
    last = drafts[-1]
    if last.words[:1] == ["exit"] and len(last.words) == 2 and last.before == ";":
        if "$" in last.words[1]:
            return [*_coverage_by_exit(drafts, last.words[1]), (False, False)]
        if last.words[1].strip("0") and (refused := _block_after_or(drafts)):
            return _coverage(drafts[:refused], False) + marks[refused:]
    final = lists[-1]
    for entry in lists:
        if entry[2]:
            _cover_list(drafts, entry, marks, is_last=entry is final)
    return marks


def _block_after_or(drafts: list[_Draft]) -> int:
    """Return where the block of `command || { echo failed; exit 1; }` begins: exit code 0 belongs to the command."""
    for index in range(len(drafts) - 1, 0, -1):
        if drafts[index].before == "||":
            return index
        if drafts[index].words[:1] not in (["echo"], ["printf"], ["exit"], ["cat"], ["tail"]):
            return 0
    return 0


def _coverage_by_exit(drafts: list[_Draft], code: str) -> list[tuple[bool, bool]]:
    """Return the coverage of a line that ends with `exit $?`, `exit $code` or `exit ${PIPESTATUS[0]}`."""
    body = drafts[:-1]
    name = code.strip('${}"')
    for index in range(len(body) - 1, -1, -1):
        stored = next((word for word in body[index].assigned if word.startswith(name + "=") and "$" in word), None)
        if stored:
            inner = _coverage_of_pipes(body[:index], "PIPESTATUS" in stored)
            return inner + [(False, False)] * (len(body) - index)
    return _coverage_of_pipes(body, "PIPESTATUS" in code)


def _coverage_of_pipes(drafts: list[_Draft], first: bool) -> list[tuple[bool, bool]]:
    """Return the coverage of a line whose pipes do (`first`) or do not tell the exit code of their first command."""
    marks = _coverage(drafts, False)
    if first:
        index = len(drafts) - 1
        while index > 0 and drafts[index].before == "|":
            marks[index] = (False, False)
            index -= 1
        if index >= 0:
            marks[index] = (True, True)
    return marks


def _cover_list(
    drafts: list[_Draft], entry: tuple[int, int, bool, bool], marks: list[tuple[bool, bool]], is_last: bool
) -> None:
    """Mark the commands of a list of pipelines that `&&` and `||` connect."""
    begin, end, _, pipefail = entry
    after_or = begin
    for index in range(begin + 1, end):
        if drafts[index].before == "||":
            refuses = drafts[index].words[:1] in (["exit"], ["return"], ["false"]) and drafts[index].words[1:] != ["0"]
            # After `command || exit 1`, exit code 0 still means that the command succeeded.
            after_or = after_or if refuses else index + 1
            if not refuses:
                while after_or < end and drafts[after_or].before == "|":
                    after_or += 1
    for index in range(begin, end):
        in_pipe = index + 1 < end and drafts[index + 1].before == "|"
        belongs = (pipefail or not in_pipe) and not drafts[index].blocks
        hidden = index < after_or
        marks[index] = (belongs and not hidden, belongs and (is_last or not hidden))


_CODE_IN_TEXT = re.compile(r"\$\?|\$\{\?\}|\$\{PIPESTATUS\[(?:0|@|\*)\]\}|\$\{?pipestatus\[1\]\}?")
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")


def _printed_code(drafts: list[_Draft]) -> PrintedCode | None:
    """Return the last command that prints an exit code, such as `echo "exit=$?"`."""
    for index in range(len(drafts) - 1, 0, -1):
        draft = drafts[index]
        if draft.words[:1] not in (["echo"], ["printf"]) or draft.before not in (";", "||"):
            continue
        text = " ".join(word for word in draft.words[1:] if word not in ("-e", "-n", "-en", "-ne"))
        found, upto = _CODE_IN_TEXT.search(text), index
        if found is None:
            found, upto = _stored_code(drafts[:index], text)
        if found is None:
            continue
        stored = " ".join(drafts[upto].assigned) if upto < index else ""
        source = drafts[:upto]
        marks = _coverage_of_pipes(source, "PIPE" in (found[0] + stored).upper())
        commands = tuple(draft.built(*mark) for draft, mark in zip(source, marks, strict=True) if draft.words)
        before, after = _printed_text(text[: found.start()]), _printed_text(text[found.end() :])
        # What follows on the same line may hold other variables.
        return PrintedCode(re.compile(rf"(?m)^\s*{re.escape(before)}(\d{{1,3}})\b{re.escape(after[:1])}"), commands)
    return None


def _stored_code(drafts: list[_Draft], text: str) -> tuple[re.Match[str] | None, int]:
    """Return the variable in a text that holds an exit code, and the position of the command that stores it."""
    for found in _VARIABLE.finditer(text):
        for index in range(len(drafts) - 1, 0, -1):
            if any(re.match(rf"{found[1]}=\"?\$[{{]?(?:\?|PIPESTATUS)", word) for word in drafts[index].assigned):
                return found, index
    return None, 0


def _printed_text(text: str) -> str:
    """Return what `echo` or `printf` prints before or after a value, from the last line break on."""
    last = re.split(r"\\n|\n", text)[-1] if text.endswith((" ", "=", ":")) or text else text
    return last.replace("%d", "").replace("%s", "").lstrip()


def _echoed_verdict(drafts: list[_Draft]) -> EchoedVerdict | None:
    """Return what the end of `command && echo GOOD || echo BAD` prints."""
    if len(drafts) < 3 or [draft.before for draft in drafts[-2:]] != ["&&", "||"]:
        return None
    texts = [" ".join(draft.words[1:]) for draft in drafts[-2:] if draft.words[:1] == ["echo"]]
    if len(texts) == 2 and all(texts) and texts[0] != texts[1] and "$" not in "".join(texts):
        return EchoedVerdict(texts[0], texts[1])
    return None
