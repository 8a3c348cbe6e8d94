"""A small file of each format that `critiqor import` reads."""

from __future__ import annotations

import json
from typing import Any

_TIMES = {"start_time": "2026-01-01T00:00:00Z", "end_time": "2026-01-01T00:00:01Z"}
_ATTRIBUTES = {
    "openinference.span.kind": "TOOL",
    "tool.name": "exec",
    "input.value": "pytest",
    "output.value": "1 failed",
}
_CALL = {
    "role": "assistant",
    "content": [{"type": "toolCall", "id": "c1", "name": "exec", "arguments": {"command": "ls"}}],
}


def _entry(number: int, **fields: Any) -> dict[str, Any]:
    times = {"timestamp": f"2026-01-01T00:00:0{number}Z", "id": f"e{number}", "parentId": f"e{number - 1}"}
    return {"type": "message", **times, **fields}


def _lines(*values: Any) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


_SESSION: list[dict[str, Any]] = [
    {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00Z"},
    _entry(1, message={"role": "user", "content": [{"type": "text", "text": "List the files."}]}),
    _entry(2, message={**_CALL, "usage": {"input": 10, "output": 5, "cost": {"total": 0.01}}}),
    _entry(3, message={"role": "toolResult", "toolCallId": "c1", "content": [{"type": "text", "text": "a.py"}]}),
    _entry(4, message={"role": "assistant", "content": [{"type": "text", "text": "One file."}]}),
]
IMPORTED = {
    "neutral.jsonl": _lines(
        {
            "trace_id": "t",
            "events": [
                {"type": "user", "text": "What is two and two?"},
                {"type": "tool_call", "tool": "exec", "arguments": {"command": "bc"}, "id": "c1"},
                {"type": "tool_result", "id": "c1", "result": "4", "status": "ok"},
                {"type": "assistant", "text": "Four."},
            ],
        }
    ),
    "transcript.jsonl": _lines(*_SESSION),
    "trajectory.jsonl": _lines(
        *(
            {
                "traceSchema": "openclaw-trajectory",
                "source": "transcript",
                "type": "session.entry",
                "sessionId": "s",
                "ts": entry["timestamp"],
                "data": entry,
            }
            for entry in _SESSION
        )
    ),
    "spans.json": json.dumps(
        [{"name": "exec", "context": {"trace_id": "t", "span_id": "s"}, "attributes": _ATTRIBUTES, **_TIMES}]
    ),
    "otlp.json": json.dumps(
        {
            "resourceSpans": [
                {
                    "resource": {},
                    "scopeSpans": [
                        {
                            "scope": {"name": "x"},
                            "spans": [
                                {
                                    "traceId": "t",
                                    "spanId": "s",
                                    "name": "exec",
                                    "startTimeUnixNano": "1742401928000000000",
                                    "endTimeUnixNano": "1742401929000000000",
                                    "attributes": [
                                        {"key": name, "value": {"stringValue": value}}
                                        for name, value in _ATTRIBUTES.items()
                                    ],
                                }
                            ],
                        }
                    ],
                }
            ]
        }
    ),
    "atif.json": json.dumps(
        {
            "schema_version": "ATIF-v1.2",
            "session_id": "s-1",
            "agent": {"name": "claude-code", "version": "2", "model_name": "model-1"},
            "steps": [
                {"step_id": 1, "timestamp": "2026-04-01T15:00:00.000Z", "source": "user", "message": "Run it."},
                {
                    "step_id": 2,
                    "timestamp": "2026-04-01T15:00:10.000Z",
                    "source": "agent",
                    "message": "Done.",
                    "metrics": {"prompt_tokens": 10, "completion_tokens": 2},
                    "tool_calls": [{"tool_call_id": "c", "function_name": "exec", "arguments": {"command": "ls"}}],
                    "observation": {"results": [{"source_call_id": "c", "content": "a.py"}]},
                },
            ],
        }
    ),
}
