"""Every attribute of a span is defined by OpenTelemetry or OpenInference, or starts with `critiqor.`."""

from __future__ import annotations

import importlib
import pkgutil
import re
from types import ModuleType

import openinference.semconv.resource
import openinference.semconv.trace
from opentelemetry.semconv._incubating import attributes
from otlp import ReadTrace
from test_otlp import concluded, read, talk

INDEXED = re.compile(r"\.\d+\.")


def texts_of(holder: object) -> set[str]:
    return {value for name, value in vars(holder).items() if name.isupper() and isinstance(value, str)}


def of_opentelemetry() -> set[str]:
    modules = pkgutil.iter_modules(attributes.__path__, f"{attributes.__name__}.")
    return set().union(*(texts_of(importlib.import_module(module.name)) for module in modules))


def of_openinference() -> set[str]:
    modules: list[ModuleType] = [openinference.semconv.trace, openinference.semconv.resource]
    classes = [kind for module in modules for kind in vars(module).values() if isinstance(kind, type)]
    return set().union(*map(texts_of, classes))


KNOWN = of_opentelemetry() | of_openinference()


def is_known(name: str) -> bool:
    """Names of list items contain indices; the parts around the indices must be known."""
    return name.startswith("critiqor.") or all(part in KNOWN for part in INDEXED.split(name))


def names_in(trace: ReadTrace) -> set[str]:
    spans = [name for span in trace.spans for name in span.attributes]
    events = [name for span in trace.spans for _, _, attributes in span.events for name in attributes]
    return {*trace.resource, *spans, *events}


def test_every_name_is_defined_by_a_convention_or_starts_with_critiqor() -> None:
    story = talk().process(1)
    usage = {"input": 1, "output": 1, "cacheRead": 1, "cacheWrite": 1}
    story.event("token_usage", status="error", error="no", payload={"model": "m", "usage": usage}).finishes()
    names = names_in(read(story, concluded(story, 0), content=True))
    assert {"gen_ai.tool.call.result", "llm.cost.total", "gen_ai.usage.cache_read.input_tokens"} <= names
    assert "llm.output_messages.0.message.tool_calls.0.tool_call.function.name" in names
    assert [name for name in sorted(names) if not is_known(name)] == []


def test_deprecated_names_are_not_written() -> None:
    names = names_in(read(talk(), content=True))
    assert not names & {"gen_ai.system", "gen_ai.prompt", "gen_ai.completion", "gen_ai.usage.prompt_tokens"}
