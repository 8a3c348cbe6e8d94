"""Monotonous texts in every place of a run: a careless pattern would need minutes for one of them."""

from __future__ import annotations

import pytest
from story import Story

SIZE = 6_000
PIECES = (
    *("A", "a", "1", "a1", "A1-", "_", "-", "a_", "a-", "a ", "1 ", "1,", "1.", "1:", "$1", "(", "[", "{", '"', "'"),
    *(
        "`",
        "\\",
        "|",
        "| a |\n",
        "\n",
        "- 1\n",
        "a,",
        "a;",
        "日",
        "1日",
        "。",
        "?",
        "a@b.",
        "https://a/",
        "#a ",
        "--a 1 ",
    ),
    *(
        "a=1 ",
        "a: 1\n",
        '{"a":',
        "a/b/",
        "a.b.",
        "no ",
        "2025-01-",
        "10:00 ",
        "5% ",
        "**a**",
        "```",
        "&&",
        "1 passed, ",
    ),
)


def story_with(text: str, place: str) -> Story:
    story = Story().user(text if place == "request" else "Fix app.py and send the report to ada@x.org by 3 May")
    story.runs("pytest -q", "1 failed, 3 passed in 0.2s", exit_code=1)
    new = text if place == "argument" else "b"
    story.calls("edit", {"path": "app.py", "oldText": "a", "newText": new}, "ok")
    story.runs(f"echo {text}" if place == "command" else "cat a.txt", text if place == "output" else "hello 12")
    story.calls("send_email", {"to": "ada@x.org", "body": new}, text if place == "output" else '{"ok": true}')
    return story.says(text if place == "answer" else "All 4 tests pass, and the report was sent on 3 May.").finishes()


@pytest.mark.parametrize("place", ["answer", "request", "output", "argument", "command"])
@pytest.mark.parametrize("piece", PIECES)
def test_monotonous_text_is_diagnosed(piece: str, place: str) -> None:
    text = (piece * (SIZE // len(piece) + 1))[:SIZE]
    diagnosis = story_with(text, place).diagnosis()
    # The tests failed and were not run again; an answer of marks alone may claim nothing.
    assert diagnosis.readiness != "ready" or place == "answer"


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("depth", [100, 900, 3000])
def test_deeply_nested_output_is_diagnosed(opening: str, closing: str, depth: int) -> None:
    story = Story().user("send it").calls("send_email", {"to": "ada"}, f"{opening * depth}1{closing * depth}")
    assert story.says("Sent.").finishes().diagnosis().run_id
