"""The documents are true to the code."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import click
import jsonschema
import msgspec
import pytest
from support import Fields, Runs, attached, recorded

from critiqor.cli.root_command import VERBS, critiqor
from critiqor.cli.settings import KEYS
from critiqor.diagnosis import FAILURE_TYPES
from critiqor.exporters import load_report
from critiqor.model import Claim, Coverage, Diagnosis, Event, Finding, Outcome, SessionDiagnosis, TaskOutcome
from critiqor.policy.policy_file import Policy, parse_policy
from critiqor.run.store import Run

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
INTERNAL_VARIABLES = {"CRITIQOR_PRINTING"}
"""Marks of processes that Critiqor starts and ends itself; nobody is to set them."""


def generator(name: str) -> ModuleType:
    """A script of the docs folder."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_help_in_the_pages_of_the_verbs_is_that_of_today() -> None:
    stale = [page.name for page, text in generator("commands").pages().items() if page.read_text() != text]
    assert stale == [], "python docs/commands.py"


def test_every_page_of_a_verb_belongs_to_one() -> None:
    assert {page.stem for page in (DOCS / "commands").glob("*.md")} == set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_page_of_a_verb_says_when_to_use_it_and_shows_an_example(verb: str) -> None:
    page = (DOCS / "commands" / f"{verb}.md").read_text()
    titles = re.findall(r"^## (.+)$", re.sub(r"```.*?```", "", page, flags=re.DOTALL), re.MULTILINE)
    assert titles == ["Example", "Exit codes", "Related", "Help"]
    assert len(page.split("## Example")[0]) > 100
    assert f"critiqor {verb}" in page.split("## Example")[1].split("## Exit codes")[0]


@pytest.mark.parametrize("name", generator("schemas").SCHEMAS)
def test_schemas_are_those_of_today_and_are_documented(name: str) -> None:
    shipped = (ROOT / "critiqor" / "model" / "schemas" / f"{name}.json").read_text()
    assert shipped == generator("schemas").schema_text(name), "python docs/schemas.py"
    assert f"| `{name}` |" in (DOCS / "schemas.md").read_text()


def test_what_is_written_of_a_run_keeps_to_the_schemas(runs: Runs) -> None:
    failed: Fields = {"status": "error", "error": "HTTP 401"}
    runs.seal(attached(), recorded(2), recorded(3, "after_provider_response", **failed))
    paths = runs.paths
    written = {
        "critiqor.session.v1": paths.evidence_summary_path("run_001").read_bytes(),
        "critiqor.run.v1": paths.run_path("run_001").read_bytes(),
        "critiqor.report.v1": msgspec.json.encode(load_report(Run("run_001", paths))),
    }
    for name, document in written.items():
        schema = json.loads(generator("schemas").schema_text(name))
        jsonschema.validate(json.loads(document), schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**json.loads(document), "run_id": 7, "run": 7}, schema)


def test_every_variable_that_is_read_or_set_is_documented() -> None:
    sources = [path for kind in ("*.py", "*.js") for path in (ROOT / "critiqor").rglob(kind)]
    used = {name for path in sources for name in re.findall(r"""["'.](CRITIQOR_[A-Z_]+)\b""", path.read_text())}
    assert used - INTERNAL_VARIABLES == set(re.findall(r"CRITIQOR_[A-Z_]+", (DOCS / "settings.md").read_text()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    lost = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert lost == []


def anchors(page: Path) -> set[str]:
    """What headings are called in an address, as GitHub makes it."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_in_the_readme(verb: str) -> None:
    assert f"critiqor {verb}" in (ROOT / "README.md").read_text()


def test_every_verb_but_monitor_and_mcp_answers_as_json_as_the_readme_says() -> None:
    commands: dict[str, click.Command | None] = {}
    for verb in VERBS:
        command = critiqor.get_command(click.Context(critiqor), verb)
        deeper = command.commands if isinstance(command, click.Group) else {"": command}
        commands |= {f"{verb} {name}".strip(): each for name, each in deeper.items()}
    silent = [
        verb for verb, command in commands.items() if command and "as_json" not in {p.name for p in command.params}
    ]
    assert silent == ["monitor openclaw", "mcp"]


def test_documented_names_are_those_that_the_recorder_subscribes_to() -> None:
    plugin = (ROOT / "critiqor" / "clawhub" / "critiqor-openclaw" / "index.js").read_text()
    listed = re.search(r"DOCUMENTED_EVENTS = Object\.freeze\(\{(.+?)\}\)", plugin, re.DOTALL)
    defined = re.search(r"The documented names are (.+?)\. ", " ".join((DOCS / "recording.md").read_text().split()))
    assert listed and defined
    assert re.findall(r"`(\w+)`", defined[1]) == re.findall(r'"(\w+)"', listed[1])


@pytest.mark.parametrize("struct", [Event, Coverage], ids=["event", "coverage"])
def test_every_field_of_the_evidence_is_documented(struct: type[msgspec.Struct]) -> None:
    text = (DOCS / "evidence.md").read_text()
    assert [name for name in struct.__struct_fields__ if f"`{name}`" not in text] == []


@pytest.mark.parametrize(
    "struct",
    [Diagnosis, Finding, SessionDiagnosis, Outcome, TaskOutcome, Claim],
    ids=["diagnosis", "finding", "session", "outcome", "task", "claim"],
)
def test_every_field_of_a_diagnosis_is_documented(struct: type[msgspec.Struct]) -> None:
    text = (DOCS / "diagnosis.md").read_text()
    assert [name for name in struct.__struct_fields__ if f"`{name}`" not in text] == []


@pytest.mark.parametrize("kind", FAILURE_TYPES)
def test_every_failure_type_is_documented_with_what_a_user_must_know_of_it(kind: str) -> None:
    sections = (DOCS / "failures.md").read_text().split("\n## ")
    [section] = [section for section in sections if section.startswith(f"`{kind}`\n")]
    for question in ("**Looks at**", "**Thresholds**", "**Blind spots**", "**Measured**"):
        assert question in section
    assert "not externally validated" in section or re.search(r"\d", section.split("**Measured**")[1])


@pytest.mark.parametrize("key", Policy.__struct_fields__)
def test_every_key_of_a_policy_is_documented(key: str) -> None:
    assert f"\n| `{key}` |" in (DOCS / "checking.md").read_text()


def test_only_keys_of_a_policy_are_documented_and_the_example_is_one() -> None:
    text = (DOCS / "checking.md").read_text()
    table = text.split("| key |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(Policy.__struct_fields__)
    [example] = re.findall(r"```toml\n(.+?)```", text, re.DOTALL)
    assert parse_policy(example.encode(), "toml", FAILURE_TYPES).min_trust


@pytest.mark.parametrize("setting", sorted(KEYS))
def test_every_setting_is_documented(setting: str) -> None:
    assert f"`{setting}`" in (DOCS / "settings.md").read_text()
