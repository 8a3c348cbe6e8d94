"""How tool calls are classified: reading, waiting, changing, acting, testing."""

from __future__ import annotations

import json

import pytest

from critiqor.diagnosis.signals.tool_calls import does_nothing, kind_of, runs_tests
from critiqor.spans.calls import Kind

NAMED = {
    Kind.LOOKUP: "read web_search web_fetch get_order order_list mail_search memory_get get_answer code_search "
    "rooms_availability wms_stock dhl_track asaas_buscar_cliente holded_listar_gastos crm_suchen xero_report "
    "Read Grep Glob LS WebSearch WebFetch NotebookRead ToolSearch TaskList search_file_content view_image",
    Kind.WAIT: "session_status get_job_status order_status sessions_history BashOutput TaskOutput rds_restore_status",
    Kind.CHANGE: "write MultiEdit apply_patch create_file delete_file update_booking memory_write gmail_batch_archive "
    "Write Edit NotebookEdit str_replace_editor replace",
    Kind.ACTION: "message mcp__slack__post_message create_issue book_flight send_email pay_invoice gmail_forward "
    "asaas_criar_cobranca hotel_reservar mairie_reserver rechnung_erstellen treno_prenota wms_allocate fleet_approve",
    Kind.COMMAND: "exec Bash process python_interpreter shell exec_command write_stdin run_shell_command execute_bash",
    Kind.THOUGHT: "update_plan todo_write TodoWrite think TaskCreate TaskUpdate ExitPlanMode",
    Kind.OTHER: "sessions_spawn sessions_send browser cron image_generate Task Agent Skill AskUserQuestion",
}


@pytest.mark.parametrize(("kind", "tool"), [(kind, tool) for kind, tools in NAMED.items() for tool in tools.split()])
def test_kind_of_a_tool_follows_from_its_name(kind: Kind, tool: str) -> None:
    assert kind_of(tool, "{}") is kind


@pytest.mark.parametrize(
    ("tool", "action", "kind"),
    [
        ("message", "send", Kind.ACTION),
        ("message", "read", Kind.LOOKUP),
        ("message", "poll", Kind.ACTION),
        ("process", "poll", Kind.WAIT),
        ("process", "submit", Kind.COMMAND),
        ("browser", "snapshot", Kind.WAIT),
        ("browser", "act", Kind.OTHER),
        ("cron", "list", Kind.LOOKUP),
        ("cron", "add", Kind.OTHER),
    ],
)
def test_kind_of_a_tool_with_several_actions_follows_from_the_action(tool: str, action: str, kind: Kind) -> None:
    assert kind_of(tool, f'{{"action":"{action}"}}') is kind


@pytest.mark.parametrize(("command", "kind"), [("view", Kind.LOOKUP), ("create", Kind.CHANGE), ("insert", Kind.CHANGE)])
def test_kind_of_an_editor_call_follows_from_its_command(command: str, kind: Kind) -> None:
    assert kind_of("str_replace_editor", f'{{"command":"{command}","path":"/app/a.py"}}') is kind


def line(command: str) -> str:
    return json.dumps({"command": command}, separators=(",", ":"))


READING = """
git status
cd app && git log --oneline | head -5
grep -E "a|b" src
grep -n 'a > b' c
grep -rn mail src
git log --grep "npm publish"
cat a 2>/dev/null || true
env
curl -s localhost:3000/health
sed -n 1,9p a
find . -name '*.py'
npm ls
aws rds describe-db-instances --output text
python3 --version
[ -f a ]
"""
CHANGING = """
cat a > b
sed -i s/a/b/ c
ls && rm -rf b
find . -delete
echo $(rm a)
tail a | tee b
curl -s x.org -o f
curl -X POST "http://localhost:3000/items" -d '{}'
git commit -m x
npm run list
cp list.txt list.bak
sh status
make
cp list.txt list.txt.bak
rm -f log.txt && rm logs/a
mv status.json old
"""
ACTING = """
curl -X POST https://api.example/pay -d '{}'
echo hi | mail -s subject ada@x.org
gh issue create --title x
npm publish
"""
WAITING = """
sleep 5
sleep 30 && gh run view 1
date; sleep 1; curl -s localhost
kubectl get pods
docker ps -a | grep web
gh pr checks 7
"""
BY_LINE = {Kind.LOOKUP: READING, Kind.COMMAND: CHANGING, Kind.ACTION: ACTING, Kind.WAIT: WAITING}


@pytest.mark.parametrize(
    ("kind", "command"), [(kind, command) for kind, lines in BY_LINE.items() for command in lines.strip().splitlines()]
)
def test_kind_of_a_command_follows_from_its_programs(kind: Kind, command: str) -> None:
    assert kind_of("exec", line(command)) is kind


TESTING = """
pytest -q
npm test
make test
go test ./...
cargo test
node --test
npx jest
npx vitest run
uv run pytest
python -m pytest | tail -5
cd a && .venv/bin/pytest
CI=1 npm run test:unit
timeout 60 tox
bundle exec rspec
./run_tests.sh
bash scripts/test.sh
bash -lc "npm test"
python3 tests/run_all.py
"""
OTHERS = """
pip install pytest
npm install jest
npm run build
git commit -m 'make pytest happy'
git commit -m "npm test passes"
git add tests/test_a.py
rm -rf .pytest_cache
sed -i s/a/b/ tests/a.py
touch tests/a.py
cat tests/a.py
vim test.py
python latest.py
"""


@pytest.mark.parametrize("command", TESTING.strip().splitlines())
def test_command_that_runs_tests_is_known(command: str) -> None:
    assert kind_of("exec", line(command)) is Kind.COMMAND
    assert runs_tests("exec", line(command))


@pytest.mark.parametrize("command", OTHERS.strip().splitlines())
def test_command_that_only_mentions_tests_runs_none(command: str) -> None:
    assert not (kind_of("exec", line(command)) is Kind.COMMAND and runs_tests("exec", line(command)))


@pytest.mark.parametrize("line", [":", " : ", ": make install", ": 'make > a' 2>&1", "true", ":\n: rm a", ": && true"])
def test_a_null_command_does_nothing(line: str) -> None:
    arguments = json.dumps({"command": line}, separators=(",", ":"))
    assert does_nothing("exec", arguments)
    assert kind_of("exec", arguments) is Kind.LOOKUP


@pytest.mark.parametrize("line", [": > a.txt", ": && make", ":\nmake", ": $(make)", "truealert", ":make", "", "make :"])
def test_a_command_line_with_more_than_null_commands_does_something(line: str) -> None:
    assert not does_nothing("exec", json.dumps({"command": line}, separators=(",", ":")))
