"""Everyday runs of coding agents that end well: none of them may raise an alarm."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from story import Story

EDITED = "Successfully replaced 1 block(s)."
RUNS: list[Callable[[], Story]] = []


def everyday(run: Callable[[], Story]) -> Callable[[], Story]:
    RUNS.append(run)
    return run


def asked(request: str) -> Story:
    return Story().user(request).model()


def ends(story: Story, answer: str) -> Story:
    return story.says(answer).finishes()


def edits(story: Story, path: str, old: str, new: str) -> Story:
    return story.calls("edit", {"path": path, "oldText": old, "newText": new}, EDITED)


@everyday
def fixing_a_bug() -> Story:
    story = asked("the login test fails, fix it").runs("git status", "nothing to commit, working tree clean")
    story.runs(
        "npm test 2>&1 | tail -40", "FAIL login.test.js\nExpected 200, got 500\n1 failed, 11 passed", exit_code=1
    )
    edits(story.calls("read", {"path": "src/login.js"}, "throw new Error('x')"), "src/login.js", "throw", "return")
    story.runs(
        "npm test 2>&1 | tail -40", "FAIL login.test.js\nExpected 200, got 404\n1 failed, 11 passed", exit_code=1
    )
    edits(story.calls("read", {"path": "src/login.js"}, "return new Error('x')"), "src/login.js", "new Error", "ok")
    story.runs("npm test 2>&1 | tail -40", "12 passed").runs("git status", "modified: src/login.js")
    return ends(story, "I've fixed the error in `src/login.js`. All 12 tests pass now.")


@everyday
def developing_test_first() -> Story:
    story = asked("add a slugify function, test first")
    story.calls(
        "write", {"path": "tests/test_slug.py", "content": "def test_slug(): ..."}, "Successfully wrote 30 bytes"
    )
    story.runs("pytest -q", "ImportError: cannot import name 'slugify'\n1 error", exit_code=2)
    story.calls("write", {"path": "slug.py", "content": "def slugify(): ..."}, "Successfully wrote 30 bytes")
    story.runs("pytest -q", "E   assert 'a b' == 'a-b'\n1 failed", exit_code=1)
    edits(story, "slug.py", "...", "return '-'").runs("pytest -q", "1 passed in 0.02s")
    return ends(story, "`slugify` is in `slug.py`, and its test passes.")


@everyday
def fixing_types_one_by_one() -> Story:
    story = asked("make tsc happy")
    for left, name in ((5, "a"), (3, "b"), (1, "c")):
        story.runs("npx tsc --noEmit", f"src/{name}.ts({left},1): error TS2345\nFound {left} errors", exit_code=2)
        edits(story, f"src/{name}.ts", "x", "y")
    return ends(story.runs("npx tsc --noEmit"), "No type errors are left.")


@everyday
def fixing_lint() -> Story:
    story = asked("fix the lint").runs("npx eslint .", "a.js 1:1 error no-unused-vars\n3 problems", exit_code=1)
    story.runs("npx eslint . --fix", "1 problem (1 error)", exit_code=1)
    return ends(edits(story, "a.js", "a", "b").runs("npx eslint ."), "Lint is clean now.")


@everyday
def running_tests_that_fail_once() -> Story:
    story = asked("run the tests").runs("npm test", "1 failed, 11 passed", exit_code=1).runs("npm test", "12 passed")
    return ends(story, "All 12 tests pass; one failed the first time.")


@everyday
def each_test_file_by_itself() -> Story:
    story = asked("run each test file")
    for number in range(6):
        story.runs(f"pytest tests/test_{number}.py -q", "3 passed")
    return ends(story, "All 6 files pass, 18 passed in all.")


@everyday
def running_tests_beside_a_server() -> Story:
    story = asked("run the e2e tests")
    story.calls("exec", {"command": "npm run dev"}, "Command still running (session calm-fox, pid 10).")
    story.runs("npx playwright test", "5 passed (12.1s)")
    story.calls("process", {"action": "kill", "sessionId": "calm-fox"}, "Termination requested for session calm-fox.")
    stopped = "(no new output)\n\nProcess stopped by request (signal SIGTERM)."
    story.calls("process", {"action": "poll", "sessionId": "calm-fox"}, stopped, error="ended by SIGTERM")
    return ends(story, "All 5 e2e tests pass.")


@everyday
def process_that_was_asked_to_end() -> Story:
    story = asked("start the server for a moment")
    story.calls("exec", {"command": "npm run dev"}, "Command still running (session calm-fox, pid 10).")
    killed = "Termination requested for session calm-fox."
    story.calls("process", {"action": "kill", "sessionId": "calm-fox"}, killed, error=killed)
    return ends(story, "It starts; I stopped it again.")


@everyday
def waiting_for_a_build() -> Story:
    story = asked("build it and tell me when it is ready")
    story.calls(
        "exec", {"command": "make release"}, "Command still running (session brisk-owl, pid 4211). Use process."
    )
    poll = {"action": "poll", "sessionId": "brisk-owl", "timeout": 30000}
    for _ in range(12):
        story.calls("process", poll, "(no new output)\n\nProcess still running.", ms=30_000)
    story.calls("process", poll, "linked\n\nProcess exited with code 0.")
    return ends(story, "The build is ready in `dist/`.")


@everyday
def waiting_for_checks() -> Story:
    story = asked("push and watch the checks").runs("git push", "   a1..b2  main -> main")
    for _ in range(5):
        story.runs("sleep 30 && gh run view 77", "JOBS\n* build (ID 1)  in progress")
    return ends(story.runs("sleep 30 && gh run view 77", "JOBS\n✓ build in 2m11s"), "Pushed; the checks are green.")


@everyday
def waiting_for_a_server() -> Story:
    story = asked("start the server")
    story.calls("exec", {"command": "npm run dev"}, "Command still running (session calm-fox, pid 10).")
    for _ in range(3):
        story.runs("sleep 1 && curl -sf localhost:3000/health", "", exit_code=7)
    return ends(story.runs("sleep 1 && curl -sf localhost:3000/health", "ok"), "It answers on port 3000.")


@everyday
def waiting_for_pods() -> Story:
    story = asked("deploy it").runs("kubectl apply -f a.yaml", "configured")
    for _ in range(3):
        story.runs("kubectl get pods", "web 0/1 ContainerCreating").runs("sleep 10", "(no output)")
    return ends(story.runs("kubectl get pods", "web 1/1 Running"), "It is deployed and running.")


@everyday
def pushing_twice() -> Story:
    story = asked("fix the typo and push, then bump the version and push")
    edits(story, "README.md", "teh", "the").runs("git commit -am typo", "[main 1a] typo").runs(
        "git push", "main -> main"
    )
    edits(story, "package.json", "1.0.0", "1.0.1").runs("git commit -am bump", "[main 2b]").runs(
        "git push", "main -> main"
    )
    return ends(story, "Both are pushed.")


@everyday
def merging_with_a_conflict() -> Story:
    conflict = (
        "CONFLICT (content): Merge conflict in a.py\nAutomatic merge failed; fix conflicts and commit the result."
    )
    story = asked("merge dev").runs("git merge dev", conflict, exit_code=1).calls("read", {"path": "a.py"}, "<<<<<<<")
    edits(story, "a.py", "<", "x").runs("git add a.py && git commit --no-edit", "[main 12] Merge branch 'dev'")
    return ends(story, "Merged dev into main; I kept both sides in a.py.")


@everyday
def developing_an_endpoint() -> Story:
    post = 'curl -s -X POST localhost:3000/items -d \'{"name":"a"}\''
    story = edits(asked("make POST /items work").runs(post, '{"error":"name is required"}'), "app.js", "nmae", "name")
    story.runs(post, '{"id":1,"name":"a"}').runs(post, '{"id":1,"name":"a"}')
    return ends(story, "POST /items works: it answered with id 1.")


@everyday
def edit_that_did_not_match() -> Story:
    story = asked("rename the variable in app.py")
    missed = {"path": "app.py", "oldText": "total = 1", "newText": "sum_ = 1"}
    story.fails("edit", missed, "Could not find the exact text in app.py. The old text must match exactly.")
    return ends(
        edits(story.calls("read", {"path": "app.py"}, "total  = 1"), "app.py", "total  = 1", "sum_"), "Renamed."
    )


@everyday
def edits_that_were_replaced_by_writing() -> Story:
    story = asked("rewrite the intro")
    story.fails("edit", {"path": "README.md", "oldText": "Intro text"}, "Could not find the exact text in README.md.")
    story.calls("read", {"path": "README.md"}, "Intro")
    story.fails("edit", {"path": "README.md", "oldText": "Intro"}, "Found 2 occurrences of the text in README.md.")
    story.calls("write", {"path": "README.md", "content": "b"}, "Successfully wrote 1 bytes")
    return ends(story, "The intro in README.md is new.")


@everyday
def patch_that_was_replaced_by_an_edit() -> Story:
    story = asked("patch it")
    patch = {"input": "*** Begin Patch\n*** Update File: src/app.py\n"}
    story.fails("apply_patch", patch, "Failed to find expected lines in src/app.py")
    return ends(edits(story, "src/app.py", "a", "b"), "Changed in src/app.py.")


@everyday
def looking_again_after_a_command() -> Story:
    story = asked("format the file").calls("read", {"path": "a.py"}, "x=1").runs("ls", "a.py")
    story.runs("black a.py", "reformatted a.py").calls("read", {"path": "a.py"}, "x = 1")
    story.runs("black a.py", "1 file left unchanged.").calls("read", {"path": "a.py"}, "x = 1")
    return ends(story, "Formatted.")


@everyday
def installing_what_is_missing() -> Story:
    story = asked("run it").runs("python app.py", "ModuleNotFoundError: No module named 'flask'", exit_code=1)
    story.runs("pip install flask", "error: externally-managed-environment", exit_code=1)
    story.runs("python -m venv .venv && .venv/bin/pip install flask", "Successfully installed flask")
    return ends(story.runs(".venv/bin/python app.py", "running"), "It runs in a virtual environment.")


@everyday
def freeing_a_port() -> Story:
    story = asked("start it").runs("node server.js", "Error: listen EADDRINUSE: address already in use", exit_code=1)
    story.runs("lsof -ti :3000", "4211").runs("kill 4211")
    story.calls("exec", {"command": "node server.js"}, "Command still running (session x-y, pid 9).")
    return ends(story, "The server runs on port 3000.")


@everyday
def explaining_a_crash() -> Story:
    story = asked("why does it crash?").runs("node app.js", "TypeError: x is undefined at app.js:3", exit_code=1)
    story.calls("read", {"path": "app.js"}, "x.y")
    return ends(story, "`x` is undefined in line 3 of app.js: it is used before it is set.")


@everyday
def showing_that_bad_input_is_rejected() -> Story:
    story = asked("does it reject bad input?").runs("node cli.js --bad", "bad flag", exit_code=2)
    return ends(story, "Yes, it rejects it with exit code 2, as intended.")


@everyday
def auditing_dependencies() -> Story:
    report = "# npm audit report\nlodash  <4.17.21\nSeverity: moderate\n3 vulnerabilities"
    story = asked("audit the dependencies").runs("npm audit", report, exit_code=1)
    return ends(story, "There are 3 of them, all in lodash.")


@everyday
def trying_a_server_for_a_moment() -> Story:
    story = asked("does the server start?").runs("timeout 5 node server.js", "listening on 3000", exit_code=124)
    return ends(story, "Yes, I've checked `server.js`: it listens on port 3000.")


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.__name__)
def test_everyday_coding_run_is_clean(run: Callable[[], Story]) -> None:
    assert [(finding.type, finding.title) for finding in run().findings()] == []
