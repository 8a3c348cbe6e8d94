"""Names of functions and files that reveal nothing about the machine."""

from __future__ import annotations

import pytest

from critiqor.timeline.profiles.frame_names import CallFrame, FrameIndex, build_frame, short_event, short_file


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("node:internal/modules/esm/loader", "node:internal/modules/esm/loader"),
        ("file:///home/anna/work/node_modules/openclaw/dist/agent.mjs", "openclaw/dist/agent.mjs"),
        ("/home/anna/node_modules/@scope/tool/index.js", "@scope/tool/index.js"),
        ("/a/node_modules/.pnpm/x@1/node_modules/x/lib/y.js", "x/lib/y.js"),
        ("/a/node_modules/openclaw/dist/x/y/extensions/canvas/index.js", "openclaw/…/extensions/canvas/index.js"),
        ("file:///home/anna/project/secret-plan/index.js", "index.js"),
        ("C:\\Users\\anna\\project\\index.js", "index.js"),
        ("file:///home/anna/index.js?token=abc#x", "index.js"),
        ("https://anna:password@example.org/bundle.js?key=1", "bundle.js"),
        ("data:text/javascript;base64,c2VjcmV0", "data"),
        ("wasm://wasm/0011", "wasm"),
        ("evalmachine.<anonymous>", "evalmachine.<anonymous>"),
        ("/home/anna/node_modules", "node_modules"),
        ("/home/anna/node_modules/", "node_modules"),
        ("", None),
    ],
)
def test_file_is_shown_without_folders_of_the_machine(url: str, expected: str | None) -> None:
    assert short_file(url) == expected


def test_function_without_a_name_is_anonymous_and_lines_count_from_one() -> None:
    frame = build_frame(CallFrame("", "/x/index.js", 0))
    assert (frame.name, frame.file, frame.line) == ("(anonymous)", "index.js", 1)
    assert build_frame(CallFrame("(idle)")).line is None


def test_name_of_a_function_has_no_path_no_control_character_and_is_short() -> None:
    assert build_frame(CallFrame("/home/anna/plan.js")).name == "plan.js"
    assert build_frame(CallFrame("a\x1b[31mb")).name == "a [31mb"
    assert len(build_frame(CallFrame("x" * 5000)).name) == 80


def test_module_in_the_name_of_a_trace_event_is_shown_by_its_package() -> None:
    assert short_event("require('/home/anna/node_modules/openclaw/dist/x.js')") == "require('openclaw/dist/x.js')"
    assert short_event("require('node:sqlite')") == "require('node:sqlite')"
    assert short_event("fs.sync.open") == "fs.sync.open"
    assert short_event("/home/anna/x") == "x"


def test_function_that_is_met_twice_is_one() -> None:
    frames = FrameIndex()
    first = frames.number(CallFrame("f", "/a/x.js", 3))
    assert frames.number(CallFrame("g", "/a/x.js", 3)) != first
    assert frames.number(CallFrame("f", "/b/x.js", 3)) == first
    assert [frame.name for frame in frames.all()] == ["f", "g"]
