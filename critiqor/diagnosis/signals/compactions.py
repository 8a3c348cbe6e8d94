"""Whether the history of a session was replaced by a summary of it."""

# ruff: noqa: RUF001 - letters of several scripts
from __future__ import annotations

import re

from critiqor.spans.calls import Moment

_SUMMARY = re.compile(
    r"\s*(?:\[[^\]\n]{0,60}\]\s*)?(?:the )?(?:(?:earlier|previous) )?(?:conversation|session|context|chat)"
    r"(?: history)?[^.\n]{0,80}?\b(?:(?:was|has been|were) (?:compacted|summarized|summarised|condensed)"
    r"|(?:is )?being continued from a previous)"
    r"|\s*\[(?:context|conversation)[^\]\n]{0,40}(?:compact|summar)[^\]\n]{0,40}\]",
    re.IGNORECASE,
)
"""How OpenClaw, Claude Code and similar programs begin the message that replaces the history."""
_MARK = re.compile(r"\s*[\[(<【*#=-]+\s*([^\])>】\n]{4,100})")
"""A mark at the beginning of a message."""
_HISTORY = re.compile(
    r"conte[xs]t|kontext|kontekst|контекст|conver[sz]a|konvers|разговор|диалог|gespräch|chat|history|histori|verlauf"
    r"|sessi|sesi|сесси|rozmow|bağlam|konuşma|oturum|上下文|对话|会话|コンテキスト|文脈|会話|컨텍스트|맥락|대화|سياق|محادثة",
    re.IGNORECASE,
)
_SHORTENED = re.compile(
    r"compact|compatt|kompakt|kompres|komprim|comprim|compress|condens|kondens|verdicht|сжат|уплотн|sıkıştır|压缩|圧縮|압축|ضغط",
    re.IGNORECASE,
)
_SUMMARIZED = re.compile(
    r"summar|zusammengef|zusammenfass|resum|résum|riassunt|samengevat|samenvat|podsumow|streszcz|резюм|сводк|sammanfatt"
    r"|özet|摘要|总结|要約|요약|ملخص|تلخيص",
    re.IGNORECASE,
)


def is_compaction(moment: Moment) -> bool:
    """Return whether a moment is the end of a compaction that removed something."""
    payload = moment.payload
    is_end = moment.event_type == "compaction_end"
    return is_end and payload.get("completed") is not False and payload.get("compactedCount") != 0


def summarizes_history(text: str, *, by_user: bool = True) -> bool:
    """Return whether a message is the summary that a compaction has left.

    It usually seems to come from the user. An agent can also give a summary that somebody asked for.
    """
    head = text[:300]
    if by_user and _SUMMARY.match(head.removeprefix("This ")):
        return True
    mark = _MARK.match(head)
    if mark is None or not _HISTORY.search(mark[1]):
        return False
    return (_SHORTENED.search(mark[1]) or (by_user and _SUMMARIZED.search(mark[1]))) is not None
