"""Writes the JSON Schema of a diagnosis from its structs, so that it cannot be wrong.

python docs/schemas.py
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from critiqor.model.diagnosis import DIAGNOSIS_SCHEMA, Diagnosis

FOLDER = Path(__file__).parent.parent / "critiqor" / "model" / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_text() -> str:
    """The schema as it is shipped."""
    made = msgspec.json.schema(Diagnosis)
    structs = {struct.__name__: struct for struct in _structs_behind(Diagnosis)}
    for name, definition in made["$defs"].items():
        told = _descriptions(structs[name]) if name in structs else {}
        for field, shape in definition.get("properties", {}).items():
            if field in told:
                shape["description"] = told[field]
    named = {"$schema": DIALECT, "title": DIAGNOSIS_SCHEMA, **made, "$defs": dict(sorted(made["$defs"].items()))}
    return json.dumps(named, indent=2, ensure_ascii=False) + "\n"


def _structs_behind(kind: Any) -> set[type[msgspec.Struct]]:
    """A struct and all those that its fields hold."""
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
    """What stands under each field, its own and those that it has from others."""
    told: dict[str, str] = {}
    for kind in reversed(struct.__mro__):
        if issubclass(kind, msgspec.Struct) and kind is not msgspec.Struct:
            told |= _own_descriptions(kind)
    return told


def _own_descriptions(struct: type) -> dict[str, str]:
    module = ast.parse(inspect.getsource(sys.modules[struct.__module__]))
    body = next(node.body for node in module.body if isinstance(node, ast.ClassDef) and node.name == struct.__name__)
    told = {}
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            value = text.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                told[field.target.id] = " ".join(value.value.split())
    return told


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{DIAGNOSIS_SCHEMA}.json").write_text(schema_text(), encoding="utf-8")
