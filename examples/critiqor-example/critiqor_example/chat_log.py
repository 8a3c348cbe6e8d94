"""`chat-log`: a conversation as one JSON object, such as
{"conversation": "c1", "messages": [{"role": "user", "text": "Hi", "at": 1700000000000}, …]}.

A message of the role `tool` has `name`, `arguments`, `result`, and `failed` if it failed. `at` is in milliseconds since
1970.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from critiqor.importers import EventFields, EventWriter, ImportedTrace, Importer, InputFile

NAME = "chat-log"


def detects(file: InputFile) -> bool:
    """Return whether the first value of a file is a conversation."""
    return any(isinstance(value, dict) and {"conversation", "messages"} <= value.keys() for value in file.values)


def read(path: Path, key: bytes) -> Iterator[ImportedTrace]:
    """Yield the one trace of a file."""
    log = msgspec.json.decode(path.read_bytes())
    # The writer numbers, redacts and bounds the events.
    writer = EventWriter(str(log["conversation"]), key)
    writer.write("agent_start", EventFields(), {})
    for number, message in enumerate(log["messages"], 1):
        _write(writer, message, f"call-{number}")
    writer.write("agent_end", EventFields(), {})
    yield writer.trace(NAME)


def _write(writer: EventWriter, message: dict[str, Any], call_id: str) -> None:
    role, at = message.get("role"), message.get("at")
    if role == "user":
        writer.write("input", EventFields(at=at), {"role": "user", "text": message.get("text")})
    elif role == "assistant":
        writer.write("message_end", EventFields(at=at), {"role": "assistant", "text": message.get("text")})
    elif role == "tool":
        fields = EventFields(at=at, tool_name=str(message.get("name")), tool_call_id=call_id)
        writer.write_tool_call(fields, message.get("arguments"))
        error = str(message.get("result")) if message.get("failed") else None
        ended = msgspec.structs.replace(fields, error=error)
        writer.write_tool_result(ended, message.get("arguments"), message.get("result"))
    else:
        writer.notes.add("messages of an unknown role", str(role), not_understood=True)


IMPORTER = Importer(description='a chat log: {"conversation": …, "messages": […]}', detects=detects, read=read)
