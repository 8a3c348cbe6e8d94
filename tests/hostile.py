"""Runs in which everything that an agent can name or say tries to get out of its place."""

from __future__ import annotations

from typing import Any

from support import Runs, attached, line_of, recorded
from timelines import in_order, request, span

BEGIN = 1_794_000_000_000
MARK = "zzmark"
"""A word of every hostile text: where it is, the text is."""

MARKUP = {
    "script": f"<script>window.__pwned='{MARK}'</script>",
    "script_end": f"</script></title></pre></textarea><script>window.__pwned='{MARK}'</script>",
    "image": f"<img src=x onerror=\"window.__pwned='{MARK}'\">",
    "attribute": f'"><svg onload="window.__pwned=\'{MARK}\'">',
    "handler": f"' onmouseover='window.__pwned=\"{MARK}\"' autofocus onfocus='window.__pwned=1' x='",
    "address": f"javascript:window.__pwned='{MARK}'//",
    "template": "{{7*7}}${7*7}{% raw %}#{7*7}" + MARK,
    "elsewhere": f"<link rel=stylesheet href=//evil.example/{MARK}.css><iframe src=//evil.example></iframe>",
}
"""What a browser would run, load or calculate."""

CONTROLS = {
    "color": f"\x1b[31;5m{MARK}\x1b[2J\x1b[H",
    "title": f"\x1b]0;{MARK}\x07",
    "link": f"\x1b]8;;http://evil.example/\x1b\\{MARK}\x1b]8;;\x1b\\",
    "c1": f"\x9b31m{MARK}\x9d0;x\x9c\x90\x85",
    "nul": f"a\x00b\x08\x7f\r{MARK}",
    "override": f"\u202egpj.{MARK}\u202c",
    "isolate": f"\u2066\u2067{MARK}\u2069\u200f\u200e\u061c\u2028\u2029\ufeff\u200b",
}
"""What a terminal obeys, and what turns the direction of writing."""

LONG = MARK + "A" * 1_000_000
"""One line, one word, a megabyte."""

TEXTS = {**MARKUP, **CONTROLS, "long": LONG}


def hostile_run(runs: Runs, **metadata: str) -> str:
    """A sealed run with every hostile text in every place of an event, and of OpenClaw's own timeline."""
    agent = "".join((MARKUP["attribute"], CONTROLS["color"], CONTROLS["override"]))
    run_id = runs.start(agent_id=agent, benchmark_id=MARKUP["image"], **metadata)
    runs.write(run_id, *hostile_records())
    timeline = runs.paths.timeline_path(run_id)
    timeline.parent.mkdir(parents=True, exist_ok=True)
    timeline.write_bytes(b"".join(line_of(each) for each in _timeline()))
    runs.finalize(run_id)
    return run_id


def hostile_records() -> list[dict[str, Any]]:
    """Every hostile text in every place of an event."""
    texts = enumerate(TEXTS.values())
    agent_runs = [_agent_run(text, f"w{number}", BEGIN + 10_000 * (number + 1)) for number, text in texts]
    return [attached(1, at=BEGIN), *(record for some in agent_runs for record in some)]


def _agent_run(text: str, writer: str, begin: int) -> list[dict[str, Any]]:
    """A command fails three times, memory answers, and the agent says that all is well."""
    ids = {"agent_run_id": f"{writer} {text}"[:300], "session_key": f"agent:{text}"[:300], "writer": writer}
    usage = {
        "usage": {"input": 900, "output": 30, "cost": {"total": 0.01}},
        "provider": text[:300],
        "model": text[:300],
    }
    result = {"result": {"content": [{"type": "text", "text": text}], "details": {"exitCode": 1}}}
    memory = {"query": text, "operation": "search", "result": {"content": [{"type": "text", "text": text}]}}
    events = [
        recorded(1, "agent_start", at=begin, payload={"attempt": 1, "prompt": text}, **ids),
        recorded(2, "message_end", at=begin + 10, payload={"role": "user", "text": text}, **ids),
        recorded(
            3, "before_provider_request", at=begin + 20, payload={"callId": text, "contextTokenBudget": 1000}, **ids
        ),
        recorded(
            4, "after_provider_response", at=begin + 900, duration_ms=880, payload={"callId": text, **usage}, **ids
        ),
    ]
    for number in range(3):
        call = {"tool_name": text[:1000] if number else text, "tool_call_id": f"{number}{text}"[:500], **ids}
        at = begin + 1000 + 1000 * number
        arguments = {"arguments": {"command": f"npm test {text}", text[:300]: text}}
        error = {"status": "error", "error": f"exit code 1: {text}"}
        events += [
            recorded(5 + 2 * number, "tool_call", at=at, payload=arguments, **call),
            recorded(6 + 2 * number, "tool_result", at=at + 800, duration_ms=800, payload=result, **error, **call),
        ]
    reply = {"role": "assistant", "text": f"Done: all tests pass. {text}"}
    return [
        *events,
        recorded(11, "memory_event", at=begin + 4100, tool_name="memory_search", payload=memory, **ids),
        recorded(12, text[:200], at=begin + 4200, status=text[:100], payload={text[:300]: [text, {"a": text}]}, **ids),
        recorded(13, "message_end", at=begin + 4300, payload=reply, **ids),
        recorded(14, "agent_end", at=begin + 4400, status="error", error=text, payload={"success": False}, **ids),
    ]


def _timeline() -> list[dict[str, Any]]:
    texts = [text[:2000] for text in TEXTS.values()]
    spans = [span(text, f"span {number}", 1000 * number, 1000 * number + 700) for number, text in enumerate(texts)]
    requests = [request(text, number, 1000 * number, 600, provider=text) for number, text in enumerate(texts)]
    return in_order(*spans, *requests)
