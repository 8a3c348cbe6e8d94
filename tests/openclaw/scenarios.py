"""What agents do, right and wrong, as scripts for a real OpenClaw, each with the diagnosis that it deserves."""

from __future__ import annotations

import msgspec

from critiqor.lab.scripted_model import Step, ToolUse


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of an agent, and what is to be said of it."""

    name: str
    ask: str
    """What the user wants."""
    steps: tuple[Step, ...]
    diagnosis: str | None
    """The type of the primary diagnosis; None where nothing at all may be found."""
    severities: tuple[str, ...] = ()
    """What the primary diagnosis may weigh; empty where that is not the point."""
    files: dict[str, str] = {}
    """What the workspace holds before the turn."""
    context_window: int = 128_000
    killed: bool = False
    """Whether OpenClaw is killed while its first tool runs."""


def run(command: str, call: int = 1) -> ToolUse:
    return ToolUse(f"call_{call}", "exec", {"command": command})


def read(path: str, call: int = 1) -> ToolUse:
    return ToolUse(f"call_{call}", "read", {"path": path})


def one_by_one(*tools: ToolUse) -> tuple[Step, ...]:
    """A model call for each of these tools."""
    return tuple(Step(tools=(tool,)) for tool in tools)


def recall(query: str, call: int) -> ToolUse:
    """A memory lookup, in the wrapper behind which OpenClaw keeps most tools."""
    return ToolUse(f"call_{call}", "tool_call", {"id": "memory_search", "args": {"query": query}})


COUNTING = """\
n=$(cat count 2>/dev/null || echo 0)
n=$((n + 1))
echo $n > count
if [ $n -lt 8 ]; then echo "building: $n of 8 parts"; else echo "done: all 8 parts are built"; fi
"""
# OpenClaw masks keys with a well-known prefix before the model sees them; an assigned password goes through. It is put
# together when it runs, so that nothing which looks like a credential stands in a file.
TALKATIVE = """\
echo "REGION=north"
printf 'DATABASE_PASSWORD='; for part in 1 2 3 4; do printf 'aB%d7' $part; done; echo
"""
LOOKUPS = ("favourite colour", "colours the user likes", "preferred paint", "what colour to use for the fence")
LONG_LOG = """\
i=0
while [ $i -lt 400 ]; do i=$((i + 1)); echo "$1 line $i: the job went on without anything to say"; done
"""
# What the model counts, at four bytes a token: the prompt, and what OpenClaw passes on of each log.
PROMPT_TOKENS, LOG_TOKENS, LOGS = 8_400, 4_100, 8

SCENARIOS = (
    Scenario(
        name="clean",
        ask="What does notes.txt say, and which files are beside it?",
        files={"notes.txt": "The fence is painted on Friday.\n"},
        steps=(
            *one_by_one(read("notes.txt", 1), run("ls", 2)),
            Step(text="notes.txt says that the fence is painted on Friday. No other file is beside it."),
        ),
        diagnosis=None,
    ),
    Scenario(
        name="legitimate_polling",
        ask="Wait until the build is done.",
        files={"progress.sh": COUNTING},
        steps=(
            *one_by_one(*(run("sh progress.sh", call) for call in range(1, 9))),
            Step(text="The build has reported that all 8 parts are built."),
        ),
        diagnosis=None,
    ),
    Scenario(
        name="failing_command",
        ask="Deploy it.",
        files={"deploy.sh": "echo 'deploy: connection refused by build-host' >&2\nexit 7\n"},
        steps=(
            *one_by_one(*(run("sh deploy.sh", call) for call in range(1, 15))),
            Step(text="The command keeps failing with a refused connection. I could not deploy it."),
        ),
        diagnosis="repeated_tool_failure",
    ),
    Scenario(
        name="alternating",
        ask="Do the two lists agree?",
        files={"a.txt": "apples\n", "b.txt": "pears\n"},
        steps=(
            *one_by_one(*(read("a.txt" if call % 2 else "b.txt", call) for call in range(1, 9))),
            Step(text="One list has apples, the other has pears. They do not agree."),
        ),
        diagnosis="tool_loop",
    ),
    Scenario(
        name="false_claim",
        ask="Fix the test.",
        files={"test_sum.py": "def test_sum():\n    assert 1 + 1 == 3\n"},
        steps=(*one_by_one(run("pytest")), Step(text="All tests pass, done.")),
        diagnosis="false_success_claim",
    ),
    Scenario(
        name="memory_nothing",
        ask="Which colour did I want for the fence?",
        steps=(
            *one_by_one(*(recall(query, call) for call, query in enumerate(LOOKUPS, 1))),
            Step(text="You wanted the fence in dark green, as you told me last week."),
        ),
        diagnosis="memory_failure",
    ),
    Scenario(
        name="http_500_recovered",
        ask="Say hello.",
        steps=(Step(status=500), *one_by_one(run("echo hello")), Step(text="The command printed hello.")),
        diagnosis="provider_failure",
        severities=("low", "medium"),
    ),
    Scenario(
        name="http_401",
        ask="Say hello.",
        steps=(Step(status=401),),
        diagnosis="provider_failure",
        severities=("high", "critical"),
    ),
    Scenario(
        name="unknown_tool",
        ask="Frobnicate the widget.",
        steps=(
            *one_by_one(ToolUse("call_1", "frobnicate", {"widget": 1})),
            Step(text="There is no tool to frobnicate with, so I could not do that."),
        ),
        diagnosis="tool_misuse",
    ),
    Scenario(
        name="killed_mid_tool",
        ask="Run the long job.",
        steps=(*one_by_one(run("sleep 600")), Step(text="The long job is over.")),
        diagnosis="process_failure",
        killed=True,
    ),
    Scenario(
        name="over_budget",
        ask="Read the logs.",
        files={"log.sh": LONG_LOG},
        steps=(
            *(
                Step(tools=(run(f"sh log.sh job-{log}", log),), input_tokens=PROMPT_TOKENS + LOG_TOKENS * (log - 1))
                for log in range(1, LOGS + 1)
            ),
            Step(text="The jobs went on without anything to say.", input_tokens=PROMPT_TOKENS + LOG_TOKENS * LOGS),
        ),
        diagnosis="context_pollution",
        context_window=32_000,
    ),
    Scenario(
        name="secret_in_output",
        ask="Which region is it?",
        files={"settings.sh": TALKATIVE},
        steps=(*one_by_one(run("sh settings.sh")), Step(text="The region is north.")),
        diagnosis="secret_exposure",
    ),
)
