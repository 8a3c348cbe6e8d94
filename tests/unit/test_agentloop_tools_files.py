"""The read, write and edit tools, on real files."""

from __future__ import annotations

import asyncio
import base64
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import Fields

from critiqor.agentloop.sessions.messages import Image, Text
from critiqor.agentloop.tools.edit import EditTool, Replacement, apply_replacements, line_diff
from critiqor.agentloop.tools.read import MAX_BYTES, MAX_LINES, ReadTool
from critiqor.agentloop.tools.registry import offered_tools
from critiqor.agentloop.tools.tool import Tool, ToolContext, ToolOutcome
from critiqor.agentloop.tools.write import WriteTool


def run(tool: Tool, workspace: Path, *, sandboxed: bool = False, **arguments: Any) -> ToolOutcome:
    context = ToolContext(
        run_id="run",
        session_key="agent:main:main",
        agent_id="main",
        tool_call_id="call_0",
        workspace=workspace,
        sandboxed=sandboxed,
        environment={"HOME": str(workspace / "home")},
        update=lambda text: None,
    )
    return asyncio.run(tool.run(arguments, context))


def read(workspace: Path, path: str, **arguments: Any) -> ToolOutcome:
    return run(ReadTool(), workspace, path=path, **arguments)


def edit(workspace: Path, path: str, *edits: tuple[str, str], sandboxed: bool = False) -> ToolOutcome:
    listed = [{"oldText": old, "newText": new} for old, new in edits]
    return run(EditTool(), workspace, sandboxed=sandboxed, path=path, edits=listed)


def text(outcome: ToolOutcome) -> str:
    part = outcome.content[0]
    assert isinstance(part, Text)
    return part.text


def error(outcome: ToolOutcome) -> str:
    assert outcome.is_error
    assert outcome.details["status"] == "error"
    message = outcome.details["error"]
    assert isinstance(message, str)
    return message


def test_read_gives_back_what_is_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo é\n")
    assert text(read(tmp_path, "a.txt")) == "one\ntwo é\n"
    assert text(read(tmp_path, str(tmp_path / "a.txt"))) == "one\ntwo é\n"


def test_read_of_a_missing_file_fails_with_the_message_of_openclaw(tmp_path: Path) -> None:
    outcome = read(tmp_path, "missing.txt")
    assert error(outcome) == f"ENOENT: no such file or directory, access '{tmp_path / 'missing.txt'}'"
    assert '"tool": "read"' in text(outcome)


def test_read_of_a_folder_fails_with_the_message_of_openclaw(tmp_path: Path) -> None:
    assert error(read(tmp_path, ".")) == "EISDIR: illegal operation on a directory, read"


@pytest.mark.parametrize("path", ["", "  ", "a\0b"])
def test_a_path_that_names_nothing_is_refused(tmp_path: Path, path: str) -> None:
    assert "path" in error(read(tmp_path, path))
    assert "path" in error(run(WriteTool(), tmp_path, path=path, content="x"))


def test_read_of_a_pipe_without_a_writer_does_not_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in error(read(tmp_path, "pipe"))


def test_read_returns_the_requested_lines_and_says_how_many_follow(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\nfour\n")
    assert text(read(tmp_path, "a.txt", offset=2, limit=1)) == (
        "two\n\n[2 more lines in file. Use offset=3 to continue.]"
    )
    assert text(read(tmp_path, "a.txt", offset=3)) == "three\nfour\n"
    assert text(read(tmp_path, "a.txt", offset=3, limit=2)) == "three\nfour\n"


def test_read_beyond_the_end_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    assert text(read(tmp_path, "a.txt", offset=20)) == ""


def test_read_of_a_long_file_stops_and_can_be_continued_to_the_end(tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(1, 4501)]
    (tmp_path / "long.txt").write_text("\n".join(lines))
    collected: list[str] = []
    offset = 1
    while offset <= len(lines):
        page = text(read(tmp_path, "long.txt", offset=offset)).partition("\n\n[Showing lines")[0].splitlines()
        assert 0 < len(page) <= MAX_LINES
        collected += page
        offset += len(page)
    assert collected == lines


def test_read_stops_at_fifty_kilobytes(tmp_path: Path) -> None:
    (tmp_path / "wide.txt").write_text(("x" * 999 + "\n") * 100)
    outcome = read(tmp_path, "wide.txt")
    assert "[Showing lines 1-51 of 100. Use offset=52 to continue.]" in text(outcome)
    assert len(text(outcome)) < MAX_BYTES + 200
    assert outcome.details["truncation"]["totalLines"] == 100


def test_read_of_one_endless_line_says_how_to_see_some_of_it(tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_text("x" * 200_000)
    assert "sed -n '1p' 'big.txt'" in text(read(tmp_path, "big.txt"))


@given(content=st.text(alphabet="ab\né", max_size=60), first=st.integers(1, 8), limit=st.integers(1, 8))
def test_read_gives_exactly_the_lines_of_a_page(
    tmp_path_factory: pytest.TempPathFactory, content: str, first: int, limit: int
) -> None:
    folder = tmp_path_factory.mktemp("page")
    (folder / "a.txt").write_text(content, newline="")
    lines = re.findall(r"[^\n]*\n|[^\n]+", content)
    expected = "".join(lines[first - 1 : first - 1 + limit])
    following = len(lines) - (first - 1 + limit)
    if following > 0:
        note = f"\n\n[{following} more lines in file. Use offset={first + limit} to continue.]"
        expected = expected.removesuffix("\n") + note
    assert text(read(folder, "a.txt", offset=first, limit=limit)) == expected


def test_read_of_an_image_returns_the_image(tmp_path: Path) -> None:
    data = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 500
    (tmp_path / "a.png").write_bytes(data)
    outcome = read(tmp_path, "a.png")
    picture = outcome.content[1]
    assert isinstance(picture, Image)
    assert picture.mime_type == "image/png"
    assert base64.b64decode(picture.data) == data


def test_write_creates_folders_and_counts_bytes(tmp_path: Path) -> None:
    outcome = run(WriteTool(), tmp_path, path="notes/new/a.txt", content="é\n")
    assert text(outcome) == "Successfully wrote 3 bytes to notes/new/a.txt"
    assert (tmp_path / "notes/new/a.txt").read_text() == "é\n"


def test_write_over_a_folder_fails_with_the_message_of_openclaw(tmp_path: Path) -> None:
    outcome = run(WriteTool(), tmp_path, path=".", content="x")
    assert error(outcome) == f"EISDIR: illegal operation on a directory, open '{tmp_path}'"


def test_write_to_a_full_disk_says_so(tmp_path: Path) -> None:
    assert error(run(WriteTool(), tmp_path, path="/dev/full", content="x")) == "ENOSPC: no space left on device, write"


def test_write_below_a_file_fails(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    assert error(run(WriteTool(), tmp_path, path="a/b.txt", content="x")).startswith(("ENOTDIR", "EEXIST"))


def test_a_tilde_is_the_home_of_the_agent(tmp_path: Path) -> None:
    run(WriteTool(), tmp_path, path="~/a.txt", content="x")
    assert (tmp_path / "home" / "a.txt").read_text() == "x"


def test_edit_replaces_every_text_and_shows_what_changed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\nfour\n")
    outcome = edit(tmp_path, "a.txt", ("four", "4"), ("one", "1"))
    assert text(outcome) == "Successfully replaced 2 block(s) in a.txt."
    assert (tmp_path / "a.txt").read_text() == "1\ntwo\nthree\n4\n"
    assert outcome.details["firstChangedLine"] == 1
    assert outcome.details["diff"].splitlines() == ["-1 one", "+1 1", " 2 two", " 3 three", "-4 four", "+4 4"]


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ([("two", "2")], "Found 2 occurrences of the text in a.txt."),
        ([("zzz", "2")], "Could not find the exact text in a.txt."),
        ([("one", "1"), ("zzz", "2")], "Could not find edits[1] in a.txt."),
        ([("one\ntwo", "1"), ("two\ntwo", "2")], "edits[0] and edits[1] overlap in a.txt."),
        ([("one", "one")], "No changes made to a.txt."),
        ([], "Missing required parameter: edits"),
        ([("", "x")], "Missing required parameter: edits"),
    ],
)
def test_edit_requires_exactly_one_match_and_changes_nothing_otherwise(
    tmp_path: Path, edits: list[tuple[str, str]], message: str
) -> None:
    before = "one\ntwo\ntwo\n"
    (tmp_path / "a.txt").write_text(before)
    assert error(edit(tmp_path, "a.txt", *edits)).startswith(message)
    assert (tmp_path / "a.txt").read_text() == before


def test_edit_counts_occurrences_that_overlap(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("aaa")
    assert error(edit(tmp_path, "a.txt", ("aa", "b"))).startswith("Found 2 occurrences")


def test_edit_of_a_missing_file_fails_with_the_message_of_openclaw(tmp_path: Path) -> None:
    assert error(edit(tmp_path, "nope.txt", ("a", "b"))) == "Could not edit file: nope.txt. Error code: ENOENT."


def test_edit_keeps_windows_line_ends_and_invalid_utf_8(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\r\n\xff\xfe\r\n")
    outcome = edit(tmp_path, "a.txt", ("one\ntwo", "1\n2"))
    assert not outcome.is_error
    assert (tmp_path / "a.txt").read_bytes() == b"1\r\n2\r\n\xff\xfe\r\n"


@given(data=st.data())
def test_a_diff_contains_exactly_the_changed_lines(data: st.DataObject) -> None:
    old = data.draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=30).map("\n".join))
    start = data.draw(st.integers(0, len(old)))
    end = data.draw(st.integers(start, len(old)))
    replacement = Replacement(start, end, data.draw(st.text("abc\n", max_size=8)))
    new = apply_replacements(old, [replacement])
    found = line_diff(old, [replacement])
    before, after = old.split("\n"), new.split("\n")
    for line in found.diff.splitlines():
        if line.startswith("   ..."):
            continue
        number, _, content = line[1:].partition(" ")
        assert (after if line[0] == "+" else before)[int(number) - 1] == content
    removed = sum(line.startswith("-") for line in found.diff.splitlines())
    put_in = sum(line.startswith("+") for line in found.diff.splitlines())
    assert put_in - removed == len(after) - len(before)
    assert (removed + put_in > 0) == (old != new)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A workspace with ways out of it, beside a file that must not be reached."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (workspace / "link.txt").symlink_to(tmp_path / "secret.txt")
    (workspace / "up").symlink_to(tmp_path)
    (workspace / "dangling").symlink_to(tmp_path / "new.txt")
    return workspace


WAYS_OUT = ["../secret.txt", "link.txt", "up/secret.txt", "a/../../secret.txt", "up/../secret.txt", "{outside}"]


@pytest.mark.parametrize("way", WAYS_OUT)
@pytest.mark.parametrize("name", ["read", "write", "edit"])
def test_a_sandboxed_run_cannot_leave_its_workspace(outside: Path, way: str, name: str) -> None:
    path = way.format(outside=outside.parent / "secret.txt")
    tool = next(tool for tool in offered_tools() if tool.name == name)
    arguments: dict[str, Fields] = {
        "read": {},
        "write": {"content": "x"},
        "edit": {"edits": [{"oldText": "secret", "newText": "x"}]},
    }
    outcome = run(tool, outside, sandboxed=True, path=path, **arguments[name])
    assert "escapes sandbox root" in error(outcome)
    assert (outside.parent / "secret.txt").read_text() == "secret"


def test_a_sandboxed_run_cannot_create_a_file_outside_through_a_link(outside: Path) -> None:
    assert "escapes sandbox root" in error(run(WriteTool(), outside, sandboxed=True, path="dangling", content="x"))
    assert not (outside.parent / "new.txt").exists()


def test_a_sandboxed_run_works_inside_its_workspace(outside: Path) -> None:
    (outside / "inner").symlink_to(outside / "real")
    assert not run(WriteTool(), outside, sandboxed=True, path="inner/../real/a.txt", content="x").is_error
    assert text(run(ReadTool(), outside, sandboxed=True, path="inner/a.txt")) == "x"
    assert text(run(ReadTool(), outside, sandboxed=True, path=str(outside / "real/a.txt"))) == "x"


def test_without_a_sandbox_any_path_can_be_read(outside: Path) -> None:
    assert text(read(outside, "../secret.txt")) == "secret"
