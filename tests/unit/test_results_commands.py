"""Command lines: what they run, and whose exit code was recorded."""

from __future__ import annotations

import pytest
from test_results import ran

from critiqor.diagnosis.results.command_lines import parse_command_line
from critiqor.diagnosis.results.command_results import is_result_an_answer
from critiqor.diagnosis.results.programs import programs_in


def covered(line: str) -> list[str]:
    return [command.words[0] for command in parse_command_line(line).commands if command.covered]


def names(line: str) -> list[str]:
    return [program.names[0] for program in programs_in(parse_command_line(line))]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pytest -q", ["pytest"]),
        ("cd app && pytest -q", ["cd", "pytest"]),
        ("pytest -q | tail -3", ["tail"]),
        ("set -o pipefail; pytest | tail", ["pytest", "tail"]),
        ("set -euo pipefail\nmake\npytest | tee log\n", ["set", "make", "pytest", "tee"]),
        ("make || true", []),
        ("make && ls || echo no", []),
        ("make || exit 1", ["make", "exit"]),
        ("make || { echo failed; exit 1; }", ["make"]),
        ("make; ls", ["ls"]),
        ("make\nls", ["ls"]),
        ("npm start &", []),
        ("npm start & sleep 3; curl localhost", ["curl"]),
        ("pytest; code=$?; ls; exit $code", ["pytest"]),
        ("pytest | tee log; exit ${PIPESTATUS[0]}", ["pytest"]),
        ("for f in *.c; do gcc $f; done", []),
        ("if make; then ls; fi; pwd", ["pwd"]),
        ("a || b && c", ["c"]),
        ("(cd app && make)", ["cd", "make"]),
    ],
)
def test_the_exit_code_of_a_line_belongs_to_some_of_its_commands(line: str, expected: list[str]) -> None:
    assert covered(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sudo -u app env A=1 timeout 60 pytest -q", ["pytest -q"]),
        ("time nice -n 5 make test", ["make test"]),
        ("npx -y jest --ci", ["jest --ci"]),
        ("uv run --with x python -m pytest", ["pytest"]),
        ("poetry run mypy .", ["mypy ."]),
        ("docker exec -it -u root web npm test", ["npm test"]),
        ("docker compose -f a.yml exec -T web pytest", ["pytest"]),
        ("kubectl exec pod -n x -- psql -c 'select 1'", ["psql select 1"]),
        ("ssh -i key host 'cd /srv && git pull'", ["cd /srv", "git pull"]),
        ('bash -lc "npm ci && npm test"', ["npm ci", "npm test"]),
        ("bash ./deploy.sh -c prod", ["bash ./deploy.sh prod"]),
        ("python3.11 -m unittest discover", ["unittest discover"]),
        ("./gradlew test", ["gradle test"]),
        ("git -C repo push origin main", ["git push origin"]),
        ("kubectl -n prod get pods", ["kubectl get pods"]),
        ("docker-compose up -d", ["docker compose up"]),
        ("php vendor/bin/phpunit", ["phpunit"]),
        ("node_modules/.bin/eslint src", ["eslint src"]),
        ("DEBUG=1 CI=true npm run build", ["npm run build"]),
        ("coverage run -m pytest", ["pytest"]),
    ],
)
def test_a_program_is_found_behind_its_wrappers(line: str, expected: list[str]) -> None:
    assert names(line) == expected


def test_quotes_redirections_and_here_documents_are_no_commands() -> None:
    line = "python3 - <<'EOF' > out.txt 2>&1\nprint('a; b | c')\nEOF\ngrep 'x && y' \"a b\" # note ; rm\n"
    commands = parse_command_line(line).commands
    assert [command.words for command in commands] == [("python3", "-"), ("grep", "x && y", "a b")]
    assert commands[0].input_text == "print('a; b | c')\n"
    assert commands[0].redirected


@pytest.mark.parametrize(
    "line", ["", "'", '"a', "a &&", "| |", ";;;", "$(", "a <<EOF", "((", "`", "\\", "> x", "!", "a\\\n b"]
)
def test_a_broken_command_line_is_parsed_as_far_as_possible(line: str) -> None:
    parse_command_line(line)
    assert ran(line, "text", 0).state in ("success", "unknown")


@pytest.mark.parametrize(
    ("line", "text", "code", "state"),
    [
        ("grep -c x a.txt", "0", 1, "success"),
        ("grep x missing.txt", "grep: missing.txt: No such file or directory", 2, "failure"),
        ("diff a b", "1c1\n< a\n---\n> b\n", 1, "success"),
        ("git diff --exit-code", "diff --git a/x b/x", 1, "success"),
        ("test -f a", "", 1, "success"),
        ("cat a | grep x", "", 1, "success"),
        ("pytest | grep FAILED", "", 1, "unknown"),
        ("! grep -q TODO src", "", 1, "success"),
        ("cat missing", "cat: missing: No such file or directory", 1, "failure"),
        ("cat missing; true", "cat: missing: No such file or directory", 0, "failure"),
        ("timeout 10 npm start", "listening on 3000", 124, "not_final"),
        ("mkdir -p a/b", "", 0, "success"),
        ("mkdir a/b", "mkdir: cannot create directory 'a/b': No such file or directory", 1, "failure"),
        ("ls -la", "total 0", 0, "success"),
        ("./run.sh", "", None, "unknown"),
        ("sleep 5", "", 0, "success"),
    ],
)
def test_a_non_zero_exit_code_can_be_an_answer(line: str, text: str, code: int | None, state: str) -> None:
    assert ran(line, text, code).state == state


def test_a_printed_exit_code_is_read() -> None:
    said = ran('./deploy.sh > log 2>&1; echo "exit=$?"', "exit=3\n", 0)
    assert (said.state, said.reason, said.quote, said.rule) == ("failure", "exit code 3", "exit=3", "printed_code")
    assert ran('./deploy.sh | tee log; echo "rc: ${PIPESTATUS[0]}"', "done\nrc: 0\n", 0).state == "success"
    assert ran("./deploy.sh; echo $?", "hello\n0\n", 0).state == "success"
    assert ran("./deploy.sh; rc=$?; tail log; echo rc=$rc", "a\nrc=2\n", 0).state == "failure"
    assert ran("grep -q x a; echo $?", "1\n", 0).state == "success"


def test_an_echoed_verdict_is_read() -> None:
    line = "./check.sh >/dev/null 2>&1 && echo GOOD || echo BAD"
    assert ran(line, "BAD\n", 0).state == "failure"
    assert ran(line, "GOOD\n", 0).state == "success"


@pytest.mark.parametrize(
    "end",
    ["(Command exited with code 2)", "Exit code: 2", "exit status 2", "Process exited with code 2.", "[exit code: 2]"],
)
def test_an_exit_code_at_the_end_of_the_text_is_read(end: str) -> None:
    said = ran("./deploy.sh", f"copying\n\n{end}\n", None)
    assert (said.state, said.reason) == ("failure", "exit code 2")


def test_output_and_exit_code_in_json_are_read() -> None:
    said = ran("pytest", '{"output": "1 failed, 2 passed in 0.1s", "exit_code": 1, "error": null}', None)
    assert (said.state, said.failed, said.passed, said.rule) == ("failure", 1, 2, "pytest_summary")


def test_a_reported_failure_stays_one() -> None:
    assert ran("./x.sh", "some text", None, failed=True).reason == "reported as failed"


@pytest.mark.parametrize(
    "line",
    [
        "rsync -an a b",
        "npm publish --dry-run",
        "kubectl apply -f a.yml --dry-run=client",
        "make -n all",
        "terraform plan",
    ],
)
def test_a_dry_run_is_not_final(line: str) -> None:
    assert ran(line, "a list of files", 0).state == "not_final"
    assert ran("kubectl apply -f a.yml --dry-run=none", "deployment.apps/web configured", 0).state == "success"
    assert (
        ran("terraform plan && terraform apply -auto-approve", "Apply complete! Resources: 1 added", 0).state
        == "success"
    )


@pytest.mark.parametrize(
    ("command", "code", "is_answer"),
    [
        ("grep foo a", 1, True),
        ("grep foo a", 2, False),
        ("cat a | grep foo", 1, True),
        ("grep foo a && make", 1, False),
        ("diff a b", 1, True),
        ("npm audit", 1, True),
        ("timeout 5 node server.js", 124, True),
        ("node server.js", 124, False),
    ],
)
def test_exit_code_can_be_an_answer(command: str, code: int, is_answer: bool) -> None:
    assert is_result_an_answer(command, code) is is_answer
