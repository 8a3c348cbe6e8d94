"""Exporters and importers of extensions, and the checks that they share with the built-in ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from extension_packages import Packages
from support import Cli, Runs, attached, recorded

from critiqor.errors import CritiqorError, ExitCode, RegistrationError, UsageError
from critiqor.exporters.formats import FORMATS, Format, check_format, extension_formats, find_format
from critiqor.importers import InputFile, read_traces
from critiqor.importers.formats import FORMATS as IMPORTED
from critiqor.importers.formats import Importer, check_importer, detect_format, extension_importers

EXPORTER = """
from critiqor.exporters import Format
WORDS = Format(".txt", "any editor", "report", is_report=True, report=lambda report: [report.run.run_id.encode()])
"""
IMPORTER = """
import json
from critiqor.importers import EventFields, EventWriter, Importer

def read(path, key):
    writer = EventWriter("lines", key)
    for line in path.read_text().splitlines()[1:]:
        writer.write("message_end", EventFields(), {"role": "assistant", "text": line})
    yield writer.trace("anything")

LINES = Importer("a file that begins with LINES", lambda file: file.path.read_bytes()[:5] == b"LINES", read)
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Packages]:
    caches = (extension_formats, extension_importers)
    for cached in caches:
        cached.cache_clear()
    yield Packages(tmp_path / "packages", monkeypatch)
    for cached in caches:
        cached.cache_clear()


@pytest.fixture
def run_id(runs: Runs) -> str:
    runs.seal(attached(), recorded(2))
    return "run_001"


def test_exporter_writes_a_run_like_a_built_in_one(cli: Cli, run_id: str, packages: Packages, tmp_path: Path) -> None:
    packages.install("words", EXPORTER, "exporters", words=":WORDS")
    written = cli("export", run_id, "--format", "words")
    assert (written.code, (tmp_path / "run_001.txt").read_text()) == (0, "run_001")
    assert "open it in any editor" in written.err
    assert cli("report", run_id, "--format", "words").code == 0


def test_built_in_format_loads_no_extension(cli: Cli, run_id: str, packages: Packages) -> None:
    packages.install("broken", "raise SystemExit(9)", "exporters", words=":WORDS")
    assert cli("export", run_id, "--format", "markdown").code == 0
    assert extension_formats.cache_info().currsize == 0


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise SystemExit(9)", "SystemExit: 9"),
        ("import no_such_module", "ModuleNotFoundError"),
        ("WORDS = 1", "it must be a critiqor.exporters.Format"),
        ("x = 1", "AttributeError"),
        (EXPORTER.replace('".txt"', '"/../x"'), "suffix must be"),
        (EXPORTER.replace('"report",', '"pages",'), "takes must be one of"),
    ],
)
def test_broken_exporter_is_named_where_formats_are_listed(
    code: str, reason: str, cli: Cli, run_id: str, packages: Packages
) -> None:
    packages.install("broken", code, "exporters", words=":WORDS")
    answer = cli("export", run_id, "--format", "words")
    assert answer.code == ExitCode.USAGE
    assert "words of broken 1.2 cannot be used" in answer.err
    assert reason in answer.err
    assert "perfetto" in answer.err


def test_exporter_that_fails_is_named_and_leaves_no_file(
    cli: Cli, run_id: str, packages: Packages, tmp_path: Path
) -> None:
    packages.install("broken", EXPORTER.replace("[report.run.run_id.encode()]", "[1 / 0]"), "exporters", words=":WORDS")
    answer = cli("export", run_id, "--format", "words")
    assert answer.code == ExitCode.ERROR
    assert "words of broken 1.2 failed: ZeroDivisionError" in answer.err
    assert not (tmp_path / "run_001.txt").exists()


def test_exporter_that_yields_text_is_named(cli: Cli, run_id: str, packages: Packages) -> None:
    packages.install("broken", EXPORTER.replace(".encode()", ""), "exporters", words=":WORDS")
    assert "yields str instead of bytes" in cli("export", run_id, "--format", "words").err


@pytest.mark.parametrize("name", FORMATS)
def test_names_of_built_in_formats_cannot_be_taken(name: str) -> None:
    with pytest.raises(RegistrationError, match="taken"):
        check_format(name, FORMATS[name])


@pytest.mark.parametrize("name", IMPORTED)
def test_names_of_built_in_importers_cannot_be_taken(name: str) -> None:
    with pytest.raises(RegistrationError, match="taken"):
        check_importer(name, Importer("x", lambda _: True, lambda *_: []))


def test_unknown_format_lists_those_of_extensions(packages: Packages) -> None:
    packages.install("words", EXPORTER, "exporters", words=":WORDS")
    with pytest.raises(UsageError) as refused:
        find_format("docx")
    assert "zip, words" in str(refused.value.fix)
    assert isinstance(find_format("words"), Format)


def test_importer_reads_a_file_that_no_built_in_one_reads(cli: Cli, packages: Packages, tmp_path: Path) -> None:
    packages.install("lines", IMPORTER, "importers", lines=":LINES")
    (tmp_path / "log.txt").write_text("LINES\nHello.\n")
    answer = cli("import", "log.txt", "--json")
    assert answer.code == 0
    assert answer.document["data"]["format"] == "lines"
    assert cli("show", "run_001").code == 0


def test_built_in_importer_comes_first(packages: Packages, tmp_path: Path) -> None:
    packages.install(
        "lines", IMPORTER.replace('file.path.read_bytes()[:5] == b"LINES"', "True"), "importers", lines=":LINES"
    )
    file = tmp_path / "trace.json"
    file.write_text('{"events": []}')
    assert detect_format(file) == "neutral"
    assert extension_importers.cache_info().currsize == 0


def test_broken_importers_are_named_and_the_others_are_used(cli: Cli, packages: Packages, tmp_path: Path) -> None:
    packages.install("aaa", "raise ValueError('no')", "importers", one=":LINES")
    packages.install("bbb", IMPORTER.replace("file.path.read_bytes()", "(1 / 0)"), "importers", two=":LINES")
    packages.install("lines", IMPORTER, "importers", lines=":LINES")
    (tmp_path / "log.txt").write_text("LINES\nHello.\n")
    answer = cli("import", "log.txt")
    assert answer.code == 0
    assert "one of aaa 1.2 cannot be used: ValueError: no" in answer.err
    assert "two of bbb 1.2 cannot be used: ZeroDivisionError" in answer.err
    (tmp_path / "other.txt").write_text("?")
    refused = cli("import", "other.txt")
    assert refused.code == ExitCode.USAGE
    assert "one of aaa 1.2 cannot be used" in refused.err
    assert "a file that begins with LINES" in refused.err


@pytest.mark.parametrize("trace", ["1 / 0", "exit(3)", "'text'", "writer.trace('x').events"])
def test_importer_that_fails_while_reading_is_named(trace: str, packages: Packages, tmp_path: Path) -> None:
    packages.install("lines", IMPORTER.replace('writer.trace("anything")', trace), "importers", lines=":LINES")
    file = tmp_path / "log.txt"
    file.write_text("LINES\nHello.\n")
    with pytest.raises(CritiqorError, match=r"lines of lines 1\.2 failed"):
        list(read_traces(file))


def test_beginning_of_a_file_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"a": 1}\nbroken\n{"b": 2}\n')
    file = InputFile(path)
    assert file.values == [{"a": 1}, {"b": 2}]
    path.unlink()
    assert file.values == [{"a": 1}, {"b": 2}]


def test_doctor_lists_every_extension_with_its_state(cli: Cli, packages: Packages) -> None:
    packages.detector("team-rules")
    packages.detector("bad-rules", "bad_rules", "raise ValueError")
    packages.install("words", EXPORTER, "exporters", words=":WORDS")
    packages.install("broken", "raise ValueError('no')", "importers", lines=":LINES")
    out = cli("doctor").out
    assert "ok  extension: detector forbidden_tool of team-rules 1.2: ok" in out
    assert "ok  extension: detector bad_rules of bad-rules 1.2: ok" in out, (
        "nothing calls findings on an empty recording"
    )
    assert "ok  extension: exporter words of words 1.2: ok" in out
    assert "NO  extension: importer lines of broken 1.2: ValueError: no" in out
    assert "pip uninstall broken" in out
