"""A line-based chat with an agent in this process: replies appear while the model writes them.

    /new, /reset, /compact   start a new session; summarise the history
    /stop                    abort the reply in progress
    !command                 run a shell command of the user, which is recorded as `user_bash`
    /help, /exit             list these; leave

A line that arrives during a reply is handled by the queue mode of the configuration. If the lines come from a file or a
pipe, each one waits for the reply to the one before, except `/stop`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import msgspec

from critiqor.agentloop.entry.background_tasks import BackgroundTasks
from critiqor.agentloop.entry.runtime import AgentRuntime, open_runtime
from critiqor.agentloop.entry.single_run import error_to_print, texts_to_print
from critiqor.agentloop.event_streams import AgentEvent
from critiqor.agentloop.runs import AgentParams, RunOutcome
from critiqor.agentloop.tools.shell import ExecTool
from critiqor.agentloop.tools.tool import ToolContext, ToolOutcome
from critiqor.errors import CritiqorError, ExitCode
from critiqor.model.sanitize import Replacement, sanitize

PROMPT = "> "
HELP = "\n".join(
    (
        "/new, /reset   start a new session",
        "/compact       summarise the history",
        "/stop          abort the reply in progress",
        "!command       run a shell command",
        "/exit          leave",
    )
)
_LEAVE = ("/exit", "/quit")
_READ_BYTES = 64 * 1024
Write = Callable[[str], None]


class Chat:
    """A conversation with one session; `params` are those of every message."""

    def __init__(self, runtime: AgentRuntime, params: AgentParams, write: Write, *, is_interactive: bool) -> None:
        services = runtime.services
        self._runtime = runtime
        self._address = services.sessions.resolve_address(
            params.agent_id, params.session_key, params.session_id, services.configuration.default_agent
        )
        mode = params.queue_mode or services.configuration.queue.mode
        self._params = msgspec.structs.replace(params, queue_mode=mode)
        self._is_interactive = is_interactive
        self._screen = _ReplyScreen(self._address.key, write)
        self._replies = BackgroundTasks()
        self._active: list[str] = []
        """Ids of the runs whose replies are awaited."""
        self._command: asyncio.Task[ToolOutcome] | None = None
        """The shell command of the user in progress."""

    async def talk(self, lines: AsyncIterator[str]) -> None:
        """Handle lines until they end or the user leaves; then wait for the last reply."""
        remove = self._runtime.streams.listen(self._screen.handle)
        try:
            self._show_prompt()
            async for line in lines:
                if line.strip() in _LEAVE:
                    break
                await self._handle(line)
            await self._replies.finished()
        finally:
            remove()

    def interrupt(self) -> bool:
        """Abort the shell command or the replies in progress. Return False if there are none."""
        if self._command is not None:
            return self._command.cancel()
        aborted = [self._runtime.cancel(run_id, "interrupted", "signal") for run_id in self._active]
        return any(aborted)

    async def _handle(self, line: str) -> None:
        text = line.strip()
        if not self._is_interactive and text != "/stop":
            await self._replies.finished()
        if text == "/help":
            self._screen.show(HELP)
        elif text.startswith("!"):
            await self._run_command(text[1:].strip())
        elif text:
            await self._send(text)
            return
        self._show_prompt()

    async def _send(self, message: str) -> None:
        run_id = str(uuid4())
        self._active.append(run_id)
        try:
            await self._runtime.agent(msgspec.structs.replace(self._params, message=message, run_id=run_id))
        except CritiqorError as error:
            self._active.remove(run_id)
            self._screen.show(str(error))
            self._show_prompt()
            return
        self._replies.start(self._await_reply(run_id))

    async def _await_reply(self, run_id: str) -> None:
        try:
            outcome = await self._runtime.outcome(run_id)
        finally:
            self._active.remove(run_id)
        self._screen.end_reply(outcome)
        self._show_prompt()

    async def _run_command(self, command: str) -> None:
        if not command:
            return
        context = ToolContext(
            run_id="",
            session_key=self._address.key,
            agent_id=self._address.agent_id,
            tool_call_id="",
            workspace=Path.cwd(),
            sandboxed=False,
            environment=dict(self._runtime.services.environment),
            update=lambda output: None,
        )
        self._command = asyncio.create_task(ExecTool().run({"command": command}, context))
        try:
            await asyncio.wait({self._command})
            details = {"error": "interrupted"} if self._command.cancelled() else self._command.result().details
        finally:
            self._command.cancel()
            self._command = None
        output = str(details.get("aggregated") or details.get("error") or "")
        self._screen.show(output.rstrip("\n"))
        facts = {name: details[name] for name in ("exitCode", "durationMs", "error") if name in details}
        event = {"command": command, "output": output, "cwd": str(Path.cwd()), "surface": "chat", **facts}
        await self._runtime.hooks.run("user_bash", event, {"sessionKey": self._address.key})

    def _show_prompt(self) -> None:
        if self._is_interactive and not self._active:
            self._screen.show_prompt()


class _ReplyScreen:
    """Shows the replies of a session while they are streamed."""

    def __init__(self, session_key: str, write: Write) -> None:
        self._session_key = session_key
        self._write = write
        self._text = ""
        """Text of the current message of the model."""
        self._shown: list[str] = []
        """Whole messages that were shown since the last reply ended."""
        self._is_line_open = False

    def handle(self, event: AgentEvent) -> None:
        """Show what an event of the session adds to the reply."""
        if event.session_key != self._session_key:
            return
        data = event.data
        if event.stream == "assistant" and data.get("replace"):
            if self._text:
                self.show("(the model starts again)")
            self._text = ""
        elif event.stream == "assistant":
            self._text += data.get("delta", "")
            self._print(data.get("delta", ""))
        elif event.stream == "usage":
            self._end_message()
        elif event.stream == "run_status" and data.get("phase") == "retrying":
            self.show(f"({data['message']})")

    def end_reply(self, outcome: RunOutcome) -> None:
        """Show what was not streamed of a reply, or why there is none."""
        self._end_message()
        texts = texts_to_print(outcome)
        for text in texts:
            if text.strip() not in self._shown:
                self.show(text)
        error = error_to_print(outcome)
        # The texts of a failed run say why it failed.
        if error is not None and (outcome.error is None or not texts):
            self.show(f"({error})")
        self._shown.clear()

    def show(self, text: str) -> None:
        """Show a text on lines of its own."""
        if text:
            self._end_line()
            self._print(text)
            self._end_line()

    def show_prompt(self) -> None:
        """Show that the user can type."""
        self._end_line()
        self._write(PROMPT)

    def _end_message(self) -> None:
        if self._text:
            self._shown.append(self._text.strip())
        self._text = ""
        self._end_line()

    def _print(self, text: str) -> None:
        if text:
            self._write(sanitize(text, multiline=True, replacement=Replacement.MARK))
            self._is_line_open = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._is_line_open:
            self._write("\n")
            self._is_line_open = False


async def run_chat(
    environment: Mapping[str, str], params: AgentParams, config: Path | None = None, arguments: Sequence[str] = ()
) -> int:
    """Chat on standard input and output until the user leaves; return the exit code. `params.message` may be empty.

    SIGINT aborts the command or reply in progress, or ends the chat if there is none; SIGTERM ends it.
    """
    async with open_runtime(environment, config=config, arguments=arguments) as runtime:
        chat = Chat(runtime, params, _write, is_interactive=sys.stdin.isatty() and sys.stdout.isatty())
        talking = asyncio.create_task(chat.talk(_lines(params.message)))
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, lambda: chat.interrupt() or talking.cancel())
        loop.add_signal_handler(signal.SIGTERM, talking.cancel)
        try:
            await talking
        except asyncio.CancelledError:
            return int(ExitCode.INTERRUPTED)
        return int(ExitCode.OK)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


async def _lines(first: str) -> AsyncIterator[str]:
    """Yield the first line, if it is not empty, and then the lines of standard input as they are typed."""
    if first.strip():
        yield first
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    # A daemon thread, because a read cannot be cancelled; not sys.stdin, whose lock it would hold at exit.
    threading.Thread(
        target=_read_lines, args=(lambda line: loop.call_soon_threadsafe(lines.put_nowait, line),), daemon=True
    ).start()
    while (line := await lines.get()) is not None:
        yield line


def _read_lines(put: Callable[[str | None], object]) -> None:
    rest = b""
    with contextlib.suppress(OSError, RuntimeError):  # the terminal is gone, or the event loop is closed
        while data := os.read(0, _READ_BYTES):
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                put(line.decode("utf-8", "replace"))
        if rest:
            put(rest.decode("utf-8", "replace"))
        put(None)
