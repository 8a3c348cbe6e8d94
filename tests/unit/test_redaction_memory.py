"""A secret that was recognized once is replaced wherever it recurs in the run, in other forms and fields as well."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest

from critiqor.storage.record_filter import RecordFilter
from critiqor.storage.redaction import Redactor
from critiqor.storage.redaction.known_secrets import MAX_SECRETS

SECRET = "hunter2/hunter+2"


def recorded(filter_: RecordFilter, payload: dict[str, Any]) -> dict[str, Any]:
    envelope = {"event_id": "e", "session_key": "s", "tool_name": None, "tool_call_id": None, "error": None}
    document: dict[str, Any] = json.loads(filter_.journal_line({**envelope, "payload": payload}))
    kept: dict[str, Any] = document["payload"]
    return kept


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET, safe=""),
        base64.b64encode(SECRET.encode()).decode(),
        json.dumps({"said": SECRET}),
    ],
)
def test_a_secret_recurs_without_its_name(form: str) -> None:
    filter_ = RecordFilter(Redactor(b"key"))
    mark = recorded(filter_, {"text": f"password={SECRET}"})["text"].removeprefix("password=")
    later = recorded(filter_, {"output": f"it was {form}, and more"})["output"]
    assert mark in later
    assert form not in later


def test_a_secret_with_quotes_recurs_within_json() -> None:
    filter_ = RecordFilter(Redactor(b"key"))
    secret = 'quo"te\\4you'
    recorded(filter_, {"password": secret})
    assert "4you" not in json.dumps(recorded(filter_, {"output": json.dumps({"said": secret})}))


def test_a_secret_is_replaced_also_in_the_fields_before_the_one_that_names_it() -> None:
    kept = recorded(RecordFilter(Redactor(b"key")), {"first": f"see {SECRET}", "password": SECRET})
    assert kept["first"] == f"see {kept['password']}"


@pytest.mark.parametrize("secret", ["abc", "password", "hunter2", "password1", "session-42", "correct horse"])
def test_an_ordinary_word_is_not_replaced_everywhere(secret: str) -> None:
    filter_ = RecordFilter(Redactor(b"key"))
    recorded(filter_, {"password": secret})
    text = f"the {secret} of a broken session"
    assert recorded(filter_, {"output": text})["output"] == text


def test_the_number_of_remembered_secrets_is_bounded() -> None:
    filter_ = RecordFilter(Redactor(b"key"))
    for number in range(MAX_SECRETS + 1):
        recorded(filter_, {"password": f"first{number:05}second"})
    assert recorded(filter_, {"output": "first00000second"})["output"] == "first00000second"
    assert "[redacted:field:" in recorded(filter_, {"output": f"first{MAX_SECRETS:05}second"})["output"]


def test_what_recurs_is_counted() -> None:
    redactor = Redactor(b"key")
    redactor.value({"password": SECRET, "text": f"{SECRET} {SECRET}"})
    assert redactor.counts == {"field": 3}
