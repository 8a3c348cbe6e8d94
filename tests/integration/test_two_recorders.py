"""The recorder plugin of OpenClaw and the recorder of the embedded loop make the same records of the same facts."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings import RUN, Recording
from support import BIN

from critiqor.agentloop.event_streams import AgentEvent
from critiqor.storage.bounds import MAX_EXCERPT, MAX_PAYLOAD, MAX_TEXT
from critiqor.storage.record_filter import RecordFilter
from critiqor.storage.redaction import Redactor

PLUGIN = Path(__file__).parent.parent.parent / "critiqor" / "clawhub" / "critiqor-openclaw"
REPLAYS = Path(__file__).parent.parent / "plugin"
NAMES = ("2026.9.6-local", "2026.9.6-local-retry", "2026.9.6-local-nested", "2026.9.6-gateway")
"""What real OpenClaws emitted where hooks were live, as they always are in the embedded loop."""
REPLAY = f"""
import {{ replay }} from {json.dumps(str(REPLAYS / "support" / "harness.mjs"))};
const {{ run }} = replay({{ after() {{}} }}, process.argv[1]);
run.events();
process.stdout.write(run.text());
"""
SERIALISE = f"""
import {{ serialise }} from {json.dumps(str(PLUGIN / "payload.js"))};
import {{ Redactor }} from {json.dumps(str(PLUGIN / "redact.js"))};
let text = "";
for await (const chunk of process.stdin.setEncoding("utf8")) text += chunk;
const redactor = new Redactor(Buffer.from("key"));
for (const record of JSON.parse(text)) process.stdout.write(serialise(record, redactor) + "\\n");
"""


def node(source: str, *arguments: str, text: str = "") -> list[dict[str, Any]]:
    command = [str(BIN / "node"), "--input-type=module", "-e", source, *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def without_ids(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ordered = sorted(lines, key=lambda line: str(line["event_id"]))
    kept = [line for line in ordered if line["event_type"] != "recorder_attached"]
    return [{name: value for name, value in line.items() if name != "event_id"} for line in kept]


def replayed(name: str, made: Recording) -> list[dict[str, Any]]:
    begin = made.now
    for text in (REPLAYS / "fixtures" / f"{name}.jsonl").read_text("utf-8").splitlines():
        row = json.loads(text)
        made.now = max(made.now, begin + row.get("t", 0))
        event = row.get("event")
        if row["kind"] == "hook":
            made.recorder.hook(row["name"], event, row.get("ctx") or {})
        elif row["kind"] == "agent":
            where = {"run_id": event["runId"], "session_key": event["sessionKey"], "agent_id": event["agentId"]}
            told = AgentEvent(**where, stream=event["stream"], data=event["data"], seq=event["seq"], ts=event["ts"])
            made.recorder.agent_event(told)
        elif row["kind"] == "transcript":
            made.recorder.saved_message(event)
    made.recorder.close()
    assert made.journal.lost == 0
    return made.lines()


@pytest.mark.parametrize("name", NAMES)
def test_what_an_openclaw_emitted_becomes_the_same_records(name: str, tmp_path: Path) -> None:
    theirs = without_ids(node(REPLAY, name))
    ours = without_ids(replayed(name, Recording(tmp_path)))
    assert len(theirs) > 30
    assert ours == theirs


# Beyond these characters the two languages count differently, or see other white space.
PLAIN = st.characters(min_codepoint=1, max_codepoint=0x2FF, exclude_characters="\x1c\x1d\x1e\x1f\x85\xa0")
SECRET = "sk-" + "a1B2" * 6
FIELDS = st.text(PLAIN, max_size=30) | st.sampled_from(["password", "set-cookie", SECRET])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 53) + 1, (1 << 53) - 1)
    | st.text(PLAIN, max_size=100)
    | st.builds(
        lambda text, times, edge: (text + edge) * times,
        st.text(PLAIN, min_size=1, max_size=20),
        st.sampled_from([1, 5, 80, 700, 3000]),
        st.sampled_from(["", " ", SECRET, f" {SECRET} ", "API_KEY=hunter2hunter2"]),
    )
    | st.sampled_from([SECRET, "x" * MAX_TEXT, "y" * (MAX_TEXT + 1), "z " * MAX_EXCERPT, "w" * MAX_PAYLOAD]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(FIELDS, inner, max_size=5),
    max_leaves=25,
)
ENVELOPE = {"event_id": "e", "event_type": "tool_result", "session_key": "agent:main:main"}
RECORDS = st.builds(
    lambda payload, name, error: {
        **ENVELOPE,
        "tool_name": name,
        "tool_call_id": "c",
        "status": "ok",
        "error": error,
        "duration_ms": 1,
        "payload": payload,
    },
    st.dictionaries(st.text(PLAIN, max_size=30), VALUES, max_size=5),
    st.none() | st.text(PLAIN, max_size=90),
    st.none() | st.sampled_from(["no", SECRET, "n" * 5000, f"{'n ' * 1020}{SECRET} more"]),
)


@settings(max_examples=30)
@given(records=st.lists(RECORDS, min_size=1, max_size=20))
def test_payloads_are_bounded_and_redacted_alike(records: list[dict[str, Any]]) -> None:
    redactor = Redactor(b"key")
    ours = [json.loads(RecordFilter(redactor).journal_line(record)) for record in records]
    assert ours == node(SERIALISE, text=json.dumps(records))


def test_the_announcement_has_the_fields_of_the_plugin_and_says_which_python_it_is(tmp_path: Path) -> None:
    (theirs,) = [line for line in node(REPLAY, NAMES[0])[:1] if line["event_type"] == "recorder_attached"]
    (ours,) = Recording(tmp_path / RUN).lines()
    assert list(ours) == list(theirs)
    assert ours["payload"].keys() - theirs["payload"].keys() == {"python_version"}
    assert theirs["payload"].keys() <= ours["payload"].keys()
