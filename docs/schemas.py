"""Write the JSON Schemas of the files that Critiqor writes; they are made from its structs.

python docs/schemas.py
"""

import ast
import inspect
import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from critiqor.live.verdict import LIVE_SCHEMA, LiveVerdict
from critiqor.model.diagnosis import DIAGNOSIS_SCHEMA
from critiqor.model.event import Event
from critiqor.model.evidence import EVIDENCE_SCHEMA, Coverage, Metrics
from critiqor.model.record import RECORD_SCHEMA, SessionRecord
from critiqor.model.report import REPORT_SCHEMA, RunReport
from critiqor.notifications.alert import ALERT_SCHEMA, Message
from critiqor.storage.seals.diagnosis_seal import SealedDiagnosis

FOLDER = Path(__file__).parent.parent / "critiqor" / "model" / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Evidence(msgspec.Struct, kw_only=True):
    """Sealed evidence, as in session.json."""

    # The program writes and reads evidence event by event, so it has no such struct. The annotations must be types,
    # not strings, because a test can load this file without adding it to sys.modules.

    schema_version: str
    run_id: str
    session_id: str
    """The same as `run_id`."""
    events: list[Event]
    """In the order in which they happened."""
    metrics: Metrics
    coverage: Coverage


SCHEMAS: dict[str, type[msgspec.Struct]] = {
    DIAGNOSIS_SCHEMA: SealedDiagnosis,
    EVIDENCE_SCHEMA: Evidence,
    LIVE_SCHEMA: LiveVerdict,
    RECORD_SCHEMA: SessionRecord,
    REPORT_SCHEMA: RunReport,
    ALERT_SCHEMA: Message,
}


def schema_text(name: str = DIAGNOSIS_SCHEMA) -> str:
    """Return a schema as it is shipped."""
    made = msgspec.json.schema(SCHEMAS[name])
    structs = {struct.__name__: struct for struct in _structs_behind(SCHEMAS[name])}
    for title, definition in made["$defs"].items():
        descriptions = _descriptions(structs[title]) if title in structs else {}
        for field, shape in definition.get("properties", {}).items():
            if field in descriptions:
                shape["description"] = descriptions[field]
    named = {"$schema": DIALECT, "title": name, **made, "$defs": dict(sorted(made["$defs"].items()))}
    return json.dumps(named, indent=2, ensure_ascii=False) + "\n"


def _structs_behind(kind: Any) -> set[type[msgspec.Struct]]:
    """Return a struct and all structs in its fields."""
    found: set[type[msgspec.Struct]] = set()
    waiting = [msgspec.inspect.type_info(kind)]
    while waiting:
        known = waiting.pop()
        if isinstance(known, msgspec.inspect.StructType):
            if known.cls in found:
                continue
            found.add(known.cls)
            waiting += [field.type for field in known.fields]
        parts = [getattr(known, name, None) for name in ("item_type", "key_type", "value_type")]
        waiting += [part for part in (*parts, *getattr(known, "types", ())) if part is not None]
    return found


def _descriptions(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return the docstring under each field, inherited fields included."""
    descriptions: dict[str, str] = {}
    for kind in reversed(struct.__mro__):
        if issubclass(kind, msgspec.Struct) and kind is not msgspec.Struct:
            descriptions |= _own_descriptions(kind)
    return descriptions


def _own_descriptions(struct: type) -> dict[str, str]:
    # A test can load this file without adding it to sys.modules.
    source = (
        Path(__file__).read_text("utf-8") if struct is Evidence else inspect.getsource(sys.modules[struct.__module__])
    )
    module = ast.parse(source)
    body = next(node.body for node in module.body if isinstance(node, ast.ClassDef) and node.name == struct.__name__)
    descriptions = {}
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            value = text.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                descriptions[field.target.id] = " ".join(value.value.split())
    return descriptions


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in SCHEMAS:
        (FOLDER / f"{each}.json").write_text(schema_text(each), encoding="utf-8")
