"""The JSON Schema that is shipped is that of the structs, and what is written keeps to it."""

from __future__ import annotations

import importlib.util
import json
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import msgspec
import pytest
from story import diagnose
from support import Fields, Runs, attached, recorded
from test_engine import EXAMPLES

from critiqor.model import DIAGNOSIS_SCHEMA

DOCS = Path(__file__).parent.parent.parent / "docs"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("schemas", DOCS / "schemas.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shipped() -> dict[str, Any]:
    text = (files("critiqor.model") / "schemas" / f"{DIAGNOSIS_SCHEMA}.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def test_shipped_schema_is_the_one_of_today() -> None:
    text = (files("critiqor.model") / "schemas" / f"{DIAGNOSIS_SCHEMA}.json").read_text("utf-8")
    assert text == generator().schema_text(), "python docs/schemas.py"


def test_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(shipped())


def test_schema_says_what_fields_mean() -> None:
    fields = shipped()["$defs"]["Finding"]["properties"]
    assert fields["severity"]["enum"] == ["critical", "high", "info", "low", "medium"]
    assert "runs can be compared by it" in fields["cause"]["description"]
    assert "null if no price" in shipped()["$defs"]["ModelUsage"]["properties"]["cost_usd"]["description"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_diagnosis_keeps_to_the_schema(name: str) -> None:
    jsonschema.validate(msgspec.to_builtins(diagnose(EXAMPLES[name])), shipped())


def test_diagnosis_on_disk_keeps_to_the_schema(runs: Runs) -> None:
    failed: Fields = {"status": "error", "error": "HTTP 401"}
    runs.seal(
        attached(), recorded(2), recorded(3, "after_provider_response", **failed), recorded(4, "agent_end", **failed)
    )
    document = json.loads(runs.paths.diagnosis_path("run_001").read_bytes())
    jsonschema.validate(document, shipped())
    assert document["primary_diagnosis"]["type"] == "provider_failure"


@pytest.mark.parametrize("broken", [{"readiness": "perhaps"}, {"trust_score": "high"}, {"failure_analysis": None}])
def test_something_else_does_not_keep_to_the_schema(broken: dict[str, Any]) -> None:
    document = {**msgspec.to_builtins(diagnose([])), **broken}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, shipped())
