"""Outputs of programs: what they say where the exit code does not."""

from __future__ import annotations

import pytest
from test_results import ran

PYTEST_FAILED = """\
============================= test session starts ==============================
collected 16 items

tests/test_cart.py ..F.....F.......                                      [100%]

=================================== FAILURES ===================================
    def test_total():
>       assert total([1, 2]) == 4
E       assert 3 == 4
=========================== short test summary info ============================
FAILED tests/test_cart.py::test_total - assert 3 == 4
FAILED tests/test_cart.py::test_tax - KeyError: 'rate'
========================= 2 failed, 14 passed in 3.20s =========================
"""
JEST_FAILED = """\
 FAIL  src/cart.test.ts
  ● adds numbers
    expect(received).toBe(expected)

Test Suites: 1 failed, 3 passed, 4 total
Tests:       3 failed, 10 passed, 13 total
Snapshots:   0 total
Time:        2.1 s
Ran all test suites.
"""
RETRIED = """\
Attempt 1
=== 1 failed, 3 passed in 1.00s ===
Attempt 2
=== 4 passed in 0.90s ===
"""
ANSIBLE = """\
PLAY RECAP *********************************************************************
web1                       : ok=5    changed=2    unreachable=0    failed=1    skipped=0    rescued=0    ignored=0
web2                       : ok=7    changed=2    unreachable=0    failed=0    skipped=0    rescued=0    ignored=0
"""
PODS = """\
NAME                   READY   STATUS             RESTARTS      AGE
api-6f9c-abcde         1/1     Running            0             5m
web-7d4b-x2x1z         0/1     CrashLoopBackOff   5 (30s ago)   3m
"""
TRACEBACK = """\
loading
Traceback (most recent call last):
  File "/app/job.py", line 3, in <module>
    import requests
ModuleNotFoundError: No module named 'requests'
"""
NODE_CRASH = """\
/app/index.js:1
const x = require('missing');
Error: Cannot find module 'missing'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1144:15)

Node.js v20.11.0
"""
DBT = """\
10:00:01  1 of 11 START sql view model a .... [RUN]
10:00:02  Completed with 1 error and 0 warnings:
10:00:02    Database Error in model orders (models/orders.sql)
10:00:02  Done. PASS=10 WARN=0 ERROR=1 SKIP=0 TOTAL=11
"""
PUSH_REJECTED = """\
To github.com:acme/app.git
 ! [rejected]        main -> main (non-fast-forward)
error: failed to push some refs to 'github.com:acme/app.git'
hint: Updates were rejected because the tip of your current branch is behind
"""


@pytest.mark.parametrize(
    ("line", "text", "rule", "failed"),
    [
        ("pytest 2>&1 | tail -20", PYTEST_FAILED, "pytest_summary", 2),
        ("make test | tail -5", PYTEST_FAILED, "pytest_summary", 2),
        ("./ci.sh || true", PYTEST_FAILED, "pytest_summary", 2),
        ("npm test | cat", JEST_FAILED, "jest_summary", 3),
        ("npm test 2>&1; ls", "npm ERR! code ELIFECYCLE\nnpm ERR! errno 1\n", "npm_error", None),
        ("python -m unittest | tail", "Ran 5 tests in 0.001s\n\nFAILED (failures=2)\n", "unittest_failed", 2),
        (
            "go test ./... | tail",
            "FAIL\ta/c\t0.02s\nok  \ta/d\t0.01s\nFAIL\n",
            "go_test_package",
            None,
        ),
        ("cargo test | tail", "test result: FAILED. 3 passed; 1 failed; 0 ignored\n", "cargo_test_result", 1),
        (
            "mvn test | tail",
            "[ERROR] Tests run: 5, Failures: 1, Errors: 0, Skipped: 0\n[INFO] BUILD FAILURE\n",
            "surefire_summary",
            1,
        ),
        ("bundle exec rspec | tail -2", "Finished in 0.1 seconds\n12 examples, 2 failures\n", "rspec_summary", 2),
        ("npx tsc --noEmit | head", "src/a.ts(3,5): error TS2322: Type\n", "tsc_error", 1),
        ("npx eslint . || true", "✖ 3 problems (2 errors, 1 warning)\n", "eslint_problems", 2),
        ("ruff check . | tail -1", "Found 3 errors.\n", "ruff_found", 3),
        ("mypy . ; true", "a.py:1: error: x\nFound 1 error in 1 file (checked 3 source files)\n", "mypy_summary", 1),
        ("make build; echo", "gcc: note\nmake: *** [Makefile:3: build] Error 1\n", "make_error", None),
        ("cmake .. | tail", "CMake Error at CMakeLists.txt:3 (find_package):\n", "cmake_error", None),
        ("docker build . | tail", "ERROR: failed to solve: exit code: 1\n", "docker_build_failed", None),
        ("kubectl get pods", PODS, "kubectl_pod", 1),
        ("ansible-playbook site.yml | tail", ANSIBLE, "ansible_recap", 1),
        ("aws s3 cp a s3://b/a | cat", "upload failed: ./a to s3://b/a Access Denied\n", "aws_error", None),
        ("git push | cat", PUSH_REJECTED, "git_rejected", None),
        (
            "git merge x; true",
            "CONFLICT (content): Merge conflict in a.py\nAutomatic merge failed; fix conflicts\n",
            "git_conflict",
            None,
        ),
        ("gh pr checks 12 | cat", "build\tfail\t1m\thttps://x\ntest\tpass\t1m\thttps://x\n", "gh_check_row", 1),
        ("psql -f a.sql", 'CREATE TABLE\nERROR:  relation "a" does not exist\nINSERT 0 1\n', "psql_error", None),
        ("mysql < a.sql | cat", "ERROR 1064 (42000) at line 3: You have an error\n", "mysql_error", None),
        ("cp a b; ls", "cp: cannot stat 'a': No such file or directory\nb\n", "file_error", None),
        (
            "rsync -a a b | tail",
            "rsync error: some files were not transferred (code 23) at main.c(1338)\n",
            "rsync_error",
            None,
        ),
        (
            "systemctl status web | head",
            "● web.service - Web\n     Active: failed (Result: exit-code) since Mon\n",
            "systemctl_active",
            None,
        ),
        (
            "sudo nginx -t; true",
            'nginx: [emerg] unknown directive "x"\nnginx: configuration file test failed\n',
            "nginx_test",
            None,
        ),
        ("python job.py | tail", TRACEBACK, "python_traceback", None),
        ("node index.js | cat", NODE_CRASH, "node_crash", None),
        ("dbt run | tail", DBT, "dbt_done", 1),
        (
            "terraform apply -auto-approve | tail",
            "╷\n│ Error: creating bucket: AccessDenied\n╵\n",
            "terraform_error",
            None,
        ),
        ("foo --x; ls", "bash: foo: command not found\na.txt\n", "command_not_found", None),
        ("pip install x | tail -1", "ERROR: No matching distribution found for x\n", "pip_error", None),
        ("./upload.sh | tail", "3 of 5 files uploaded\n", "partial_counts", None),
        ("./sync.py | tail -1", "Done: 4 succeeded, 1 failed\n", "succeeded_and_failed", 1),
        ("./a.out | cat", "Segmentation fault (core dumped)\n", "killed", None),
        ("swaks --to a@b.c | cat", "<** 550 5.1.1 <a@b.c>: Recipient address rejected\n", "smtp_reply", None),
        ("vercel --prod | cat", 'Error: Command "npm run build" exited with 1\n', "hosting_failed", None),
        (
            "helm upgrade web . | cat",
            "Error: UPGRADE FAILED: timed out waiting for the condition\n",
            "helm_error",
            None,
        ),
    ],
)
def test_an_output_can_say_that_the_program_failed(line: str, text: str, rule: str, failed: int | None) -> None:
    said = ran(line, text, 0)
    assert (said.state, said.rule) == ("failure", rule)
    if failed is not None:
        assert said.failed == failed
    assert text[said.start :].startswith(said.quote)


@pytest.mark.parametrize(
    ("line", "text", "passed"),
    [
        ("pytest | tail -1", "14 passed, 1 xfailed in 0.12s\n", 14),
        ("./ci.sh | tail", RETRIED, 4),
        ("npm test | tail", "Tests:       13 passed, 13 total\n", 13),
        ("npx vitest run | tail", " Test Files  2 passed (2)\n      Tests  12 passed (12)\n", 12),
        ("go test ./... | cat", "ok  \ta/b\t0.01s\n", None),
        ("cargo test | tail", "test result: ok. 3 passed; 0 failed\n\ntest result: ok. 2 passed; 0 failed\n", 5),
        ("python -m unittest 2>&1 | tail -3", "Ran 5 tests in 0.001s\n\nOK\n", None),
        ("./gradlew build | tail", "BUILD SUCCESSFUL in 12s\n", None),
        ("npx eslint . | tail", "✖ 2 problems (0 errors, 2 warnings)\n", None),
        ("mypy . | tail -1", "Success: no issues found in 10 source files\n", None),
        ("npm ci | tail -3", "added 120 packages, and audited 121 packages in 3s\n\nfound 0 vulnerabilities\n", None),
        ("git push 2>&1 | tail", "To github.com:acme/app.git\n   a1b2c3d..e4f5a6b  main -> main\n", None),
        ("terraform apply | tail -1", "Apply complete! Resources: 3 added, 0 changed, 0 destroyed.\n", None),
        ("kubectl apply -f . | cat", "deployment.apps/web configured\nservice/web unchanged\n", None),
        ("kubectl get pods | cat", "NAME  READY  STATUS  RESTARTS  AGE\nweb-1   1/1     Running   0   5m\n", None),
        ("ctest | tail", "100% tests passed, 0 tests failed out of 5\n", None),
        ("pip install x | tail -1", "Successfully installed x-1.0\n", None),
        ("dbt run | tail", "Done. PASS=11 WARN=0 ERROR=0 SKIP=0 TOTAL=11\n", 11),
    ],
)
def test_an_output_can_say_that_the_program_succeeded(line: str, text: str, passed: int | None) -> None:
    said = ran(line, text, 0)
    assert said.state == "success"
    assert said.rule != "exit_code"
    if passed is not None:
        assert said.passed == passed


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("cat ci.log", PYTEST_FAILED),
        ("tail -50 app.log", TRACEBACK),
        ("grep -rn FAILED logs", "logs/a:BUILD FAILED\n"),
        ("git log --oneline", "1a2b3c4 fatal: handle the error\n5d6e7f8 CONFLICT (content): notes\n"),
        ("git diff", "+fatal: not a repository\n"),
        ("docker logs web", "ERROR: failed to solve: x\npanic: boom\n"),
        ("kubectl logs web", "Error from server: x\n"),
        ("curl -s https://example.com/blog", "<html><body><h1>Handling error: 500</h1>fatal: x</body></html>"),
        ("sed -n 1,20p notes.md", "Error: something\nBUILD FAILED\n"),
        ("jq . result.json", '{"status": "failed"}'),
        ("journalctl -u web -n 20", "web: Traceback (most recent call last)\nValueError: x\n"),
        ("pytest -q", "14 passed in 0.10s\nthe log says: 2 failed, 1 passed in 3 runs\n"),
        ("npm run build", "0 errors, 2 warnings\nno errors found\nFailures: 0\n"),
        ("./check.sh", "Checked 12 files, 0 failed\n"),
        ("ls build", "FAILED\nerror.log\n"),
        ("make test", "make: [Makefile:3: lint] Error 1 (ignored)\n5 passed in 0.1s\n"),
    ],
)
def test_words_in_what_a_program_prints_are_no_failure(line: str, text: str) -> None:
    assert ran(line, text, 0).state == "success"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("terraform plan -out p | tail", "Plan: 3 to add, 0 to change, 0 to destroy.\n"),
        (
            "kubectl rollout status deploy/web --watch=false",
            'Waiting for deployment "web" rollout to finish: 1 of 3 updated\n',
        ),
        ("kubectl get pods", "NAME READY STATUS RESTARTS AGE\nweb-1   0/1   ContainerCreating   0   5s\n"),
        (
            "kubectl get deploy web",
            "NAME   READY   UP-TO-DATE   AVAILABLE   AGE\nweb    1/3     3            1           5m\n",
        ),
        ("gh pr checks 12", "build\tpending\t0\thttps://x\ntest\tpass\t1m\thttps://x\n"),
        (
            "gh pr merge 12 --auto",
            "✓ Pull request #12 will be automatically merged via squash when all requirements are met\n",
        ),
        ("./deploy.sh", "[DRY RUN] would deploy web\n"),
        (
            "npm start",
            "Command still running (session brisk-reef, pid 4242). Use process (list/poll/log) for follow-up.",
        ),
        ("swaks --to a@b.c", "<** 452 4.2.2 Mailbox full\n"),
        ("helm status web", "NAME: web\nSTATUS: pending-upgrade\n"),
    ],
)
def test_an_output_can_say_that_nothing_is_final(line: str, text: str) -> None:
    assert ran(line, text, 0).state == "not_final"


def test_a_failed_program_is_quoted_beside_its_exit_code() -> None:
    said = ran("pytest", PYTEST_FAILED, 1)
    assert (said.state, said.failed, said.passed) == ("failure", 2, 14)
    assert said.quote.startswith("=====") and "2 failed" in said.quote


def test_a_failure_of_one_program_is_not_hidden_by_the_success_of_another() -> None:
    text = "2 failed, 3 passed in 0.10s\nTo github.com:a/b.git\n   a1b2c3d..e4f5a6b  main -> main\n"
    assert ran("pytest -q; git push", text, 0).state == "failure"


def test_a_summary_is_found_at_the_end_of_a_long_output_and_through_colours() -> None:
    text = "x" * 79 + "\n"
    assert ran("pytest | cat", text * 500 + "1 failed, 2 passed in 9.00s\n", 0).failed == 1
    said = ran(
        "pytest | cat", "\x1b[31m=== \x1b[31m\x1b[1m1 failed\x1b[0m, \x1b[32m2 passed\x1b[0m in 0.1s ===\x1b[0m", 0
    )
    assert (said.state, said.failed, said.passed) == ("failure", 1, 2)
