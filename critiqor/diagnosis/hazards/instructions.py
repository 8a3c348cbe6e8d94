"""Instructions inside tool results: the passage around a place, and the signs that it is meant for an agent."""

# ruff: noqa: RUF001 - punctuation of several languages
from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from critiqor.diagnosis.hazards.hidden_text import comments, decoded, unseen, visible
from critiqor.diagnosis.hazards.words import may_be_hidden_in, words

MAX_BEFORE, MAX_AFTER = 500, 400
"""Maximum number of characters of a passage before and after the place that is examined."""
MAX_LINES = 5
"""Maximum number of lines before a place that belong to its passage."""
MIN_ORDER = 16
"""Minimum number of characters of an order behind a colon."""
_ROLE = re.compile(
    r"^\W{0,8}(?:SYSTEM|ADMIN(?:ISTRATOR)?|DEVELOPER|ROOT|OPERATOR|ASSISTANT|IMPORTANT INSTRUCTIONS?)\b[^:\n]{0,40}:"
    r"|\[/?INST\]|<\|?(?:im_start|system|assistant)\|?>|<<SYS>>|#{2,3} ?(?:System|Instructions? (?:for|to))\b"
    r"|\bSYSTEM (?:OVERRIDE|NOTE|NOTICE|PROMPT|MESSAGE|INSTRUCTION|COMMAND)|\bBEGIN (?:SYSTEM|ADMIN)"
    r"|系统(?:提示|消息|指令|通知)|시스템 ?(?:메시지|지시|알림)|システム(?:指示|メッセージ|通知)"
    r"|^\W{0,4}(?:СИСТЕМА|SISTEM|SISTEMA|SYSTÈME"
    r"|النظام)\s*[:：]",
    re.MULTILINE,
)
_GUARD = re.compile(r"SECURITY NOTICE:.*?(?=<<<|\Z)|<<</?(?:END_)?EXTERNAL_UNTRUSTED_CONTENT[^>]*>>>", re.DOTALL)
_HEADER = re.compile(r"user[-_ ]?agents?", re.IGNORECASE)
_SENTENCE = re.compile(r"[.!?]\s+|\n|[。！？]|\"\s?[:,}\]]")
"""Where a sentence ends; a text in JSON ends with its quotation mark."""
_HEADING = re.compile(r"(?:[-=*_~#>]{2,}|\[|<|【).{3,90}|.{3,90}(?:[-=*_~#]{2,}|\]|>|】)")
"""A short line between marks: what it announces follows on the next line."""
_ITEM = re.compile(r"\s*(?:[-*+•$>]|\d{1,2}[.)]|`)|\s{2,}|\t")
_COMMAND = re.compile(
    r"(?:sudo |\$ )?(?:curl|wget|echo|bash|sh|rm|npm|npx|pip|pip3|ssh|scp|git|python3?|node|powershell|iwr|nc|cat"
    r"|chmod|cp|mv"
    r"|export|openssl|docker|kubectl|crontab|systemctl|tee|printf)\b"
)


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A passage of a result, with the signs that it instructs an agent."""

    text: str
    is_for_machines: bool
    """It addresses agents, assistants or automated readers."""
    overrides: bool
    """It says that earlier instructions no longer apply, or speaks in the role of the system."""
    is_secretive: bool
    """It asks not to tell or not to ask the user."""
    is_hidden: bool
    """People who look at the source in the usual way do not see it."""
    is_comment: bool
    is_imperative: bool

    @property
    def signs(self) -> int:
        """Number of signs that it is meant to steer an agent."""
        return sum((self.is_for_machines, self.overrides, self.is_secretive, self.is_hidden))

    @property
    def is_instruction(self) -> bool:
        """Whether it is meant to steer an agent."""
        if self.overrides or self.is_hidden or (self.is_secretive and self.is_comment):
            return self.is_imperative or self.signs >= 2
        return self.is_for_machines and (self.is_imperative or self.is_secretive)


class ReadText(msgspec.Struct, frozen=True):
    """The text of a result as an agent can read it: without invisible characters, with what is encoded decoded."""

    plain: str
    lowered: str
    hidden: list[tuple[int, int]]
    comments: list[tuple[int, int]]
    encoded: list[tuple[int, int, str]]


def is_read_as_is(text: str) -> bool:
    """Return whether the instructions in a result can be read as they are: nothing is encoded, invisible or escaped."""
    return not ("EXTERNAL_UNTRUSTED" in text or ("\\n" in text and text[:1] in "{[") or may_be_hidden_in(text))


def read_text(text: str, lowered: str, *, as_is: bool) -> ReadText:
    """Return the text of a result, prepared for the search for instructions."""
    if as_is:
        return ReadText(text, lowered, unseen(text), comments(text), [])
    secret = list(decoded(text))
    plain = visible(_GUARD.sub("", text) if "EXTERNAL_UNTRUSTED" in text else text)
    if "\\n" in plain and plain[:1] in "{[":
        plain = plain.replace("\\n", "\n").replace('\\"', '"')
    return ReadText(plain, plain.lower(), unseen(plain), comments(plain), secret)


def passages_with(read: ReadText, wanted: str) -> list[Passage]:
    """Return the passages of a result that contain a text, in lower case with single spaces."""
    found: list[Passage] = []
    lowered = read.lowered
    at = lowered.find(wanted)
    while at >= 0 and len(found) < 8:
        found.append(_passage_at(read, at, at + len(wanted)))
        at = lowered.find(wanted, at + len(wanted))
    for start, end, plain in read.encoded:
        if wanted in " ".join(plain.lower().split()):
            around = read.plain[max(0, start - 120) : end + 120]
            found.append(_signed(f"{around}\n{plain}", is_hidden=True, is_comment=False, decoded_text=plain))
    return found


def _passage_at(read: ReadText, start: int, end: int) -> Passage:
    """Return the passage around a place: its comment or element, or its line with those that lead to it."""
    for spans, is_hidden in ((read.hidden, True), (read.comments, False)):
        for first, last in spans:
            if first <= start and end <= last:
                text = read.plain[max(first, start - 2 * MAX_BEFORE) : min(last, end + 2 * MAX_AFTER)]
                return _signed(text, is_hidden=is_hidden, is_comment=not is_hidden)
    text = read.plain
    begin = text.rfind("\n", 0, start) + 1
    stop = text.find("\n", end)
    stop = len(text) if stop < 0 else stop
    for _ in range(MAX_LINES):
        if begin == 0:
            break
        previous = text.rfind("\n", 0, begin - 1) + 1
        line, current = text[previous : begin - 1].rstrip(), text[begin:stop]
        leads = line.endswith((":", "：", ",")) or (len(line) > 60 and line[-1:] not in ".!?。")
        if not line.strip() or not (leads or _ITEM.match(current) or _HEADING.fullmatch(line.strip())):
            break
        begin = previous
    text = text[max(begin, start - MAX_BEFORE) : min(stop, end + MAX_AFTER)]
    return _signed(text, is_hidden=False, is_comment=False)


@lru_cache(maxsize=256)
def _signed(text: str, *, is_hidden: bool, is_comment: bool, decoded_text: str = "") -> Passage:
    orders = _COMMAND.match(decoded_text.strip()) is not None if decoded_text else False
    return Passage(
        text=text,
        is_for_machines=_addresses_machines(text),
        overrides=_ROLE.search(text) is not None or words("override").within(text),
        is_secretive=words("secrecy").within(text),
        is_hidden=is_hidden,
        is_comment=is_comment,
        is_imperative=orders or words("imperative").within(decoded_text or text) or _orders_after_colon(text),
    )


def _addresses_machines(text: str) -> bool:
    """Return whether a sentence addresses programs that read it, and not only mentions them."""
    text = _HEADER.sub(" ", text)
    for sentence in _SENTENCE.split(text):
        if _HEADING.fullmatch(sentence.strip()) and words("machine").within(sentence):
            return True
        for start, end in words("machine").find(sentence)[:4]:
            rest = sentence[end : end + 90]
            if start <= 60 and (re.search(r"[:：,،!，]", rest) or words("imperative").within(rest)):
                return True
    return False


def _orders_after_colon(text: str) -> bool:
    """Return whether programs are addressed, and several words follow a colon: whatever its verbs, that is an order."""
    for sentence in _SENTENCE.split(text) if ":" in text or "：" in text else ():
        for _, end in words("machine").find(sentence)[:4]:
            _, colon, rest = sentence[end:].replace("：", ":").partition(":")
            if colon and len(rest) >= MIN_ORDER and not rest.startswith("//"):
                return True
    return False


def suspicious_passages(read: ReadText) -> list[Passage]:
    """Return the passages that instruct an agent and need not name anything that can be found again."""
    found = [_passage_at(read, first + 1, last - 1) for first, last in (*read.hidden, *read.comments)[:20]]
    if words("role_signs").may_be_within(read.plain):
        for match in list(_ROLE.finditer(read.plain))[:4]:
            found.append(_passage_at(read, match.start(), match.end()))
    position = 0
    machine = words("machine")
    for line in read.plain.split("\n")[:400] if machine.may_be_within(read.plain) else ():
        if len(line) < 2000 and machine.within(line):
            found.append(_passage_at(read, position, position + len(line)))
        position += len(line) + 1
    for start, end, plain in read.encoded:
        around = read.plain[max(0, start - 120) : end + 120]
        found.append(_signed(f"{around}\n{plain}", is_hidden=True, is_comment=False, decoded_text=plain))
    return [each for each in found if each.is_instruction]
