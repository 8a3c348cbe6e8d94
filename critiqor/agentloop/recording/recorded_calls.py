"""Facts of agent runs, written once whoever tells of them: tool calls, model calls and their turns, attempts."""

from __future__ import annotations

from typing import Any

from critiqor.agentloop.recording.journal_writer import JournalWriter
from critiqor.agentloop.recording.recorded_facts import Facts, measured, told
from critiqor.agentloop.recording.recorded_runs import (
    RecordedAttempt,
    RecordedCall,
    RecordedRun,
    RecordedTool,
    RecordedTurn,
)
from critiqor.model import SourceLayer
from critiqor.spans.tool_results import is_memory_tool, memory_lookup, tool_outcome

HOOK = "hook"
STREAM = "stream"


class Records:
    """Puts facts into the envelope that all records share."""

    def __init__(self, journal: JournalWriter) -> None:
        self._journal = journal

    def write(
        self,
        event_type: str,
        run: RecordedRun | None,
        payload: Facts,
        *,
        layer: SourceLayer = "extension_api",
        at: int | None = None,
        error: str | None = None,
        failed: bool | None = None,
        duration_ms: float | None = None,
        tool: RecordedTool | None = None,
    ) -> None:
        """Write one record, which has failed where it has an error, unless that is told."""
        moment = self._journal.now() if at is None else at
        if run is not None and run.turn is not None and moment > run.turn.last_at:
            run.turn.last_at = moment
        record = {
            "event_id": None,
            "event_type": event_type,
            "raw_event_type": event_type,
            "timestamp": None,
            "source_layer": layer,
            "session_key": run.session_key if run else None,
            "agent_run_id": run.id if run else None,
            "tool_name": _text(tool.name) if tool else None,
            "tool_call_id": tool.id if tool else None,
            "status": "error" if (error is not None if failed is None else failed) else "ok",
            "error": _text(error),
            "duration_ms": duration_ms,
            "payload": payload,
        }
        self._journal.append(record, moment)

    def now(self) -> int:
        return self._journal.now()

    def before(self, duration_ms: Any) -> int:
        """When something began that took so long until now; now, where that cannot be."""
        now = self._journal.now()
        took = measured(duration_ms)
        return now - int(took) if took is not None and 0 <= took < now else now


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else str(value)


class ToolCalls:
    """Tool calls: the start of each at once, its end with what the richest source says of it."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def start(self, source: str, run: RecordedRun, call: Facts, at: int | None = None) -> None:
        """A call begins; `call` has its `id`, `name`, `args`, `source` and perhaps its `parent`."""
        if run.tool_started(source, call["id"]) is not None:
            return
        moment = self._records.now() if at is None else at
        tool = RecordedTool(call["id"], call.get("name"), call.get("args"), moment)
        run.add_tool(tool)
        payload = {"arguments": tool.arguments, "source": call["source"]}
        self._write("tool_call", run, tool, {**payload, **told(parent_tool_call_id=call.get("parent"))}, at=moment)

    def end(self, source: str, run: RecordedRun, end: Facts) -> None:
        """A call has ended; `end` has what `start` takes, and `result`, `error`, `isError`, `durationMs` if known."""
        tool = run.tool_ended(source, end["id"])
        if tool is None:
            self.start(source, run, end, self._records.before(end.get("durationMs")))
            tool = run.latest_tool(end["id"])
        if tool is None or tool.written:
            return
        tool.end.update(end)
        if tool.ended_at is None:
            tool.ended_at = self._records.now()
        if source == HOOK:
            self.finish(run, tool)
        else:
            run.ending[tool] = None

    def finish(self, run: RecordedRun, tool: RecordedTool) -> None:
        """Write the result of a call with all that was told of it."""
        run.ending.pop(tool, None)
        if tool.written or tool.ended_at is None:
            return
        tool.written = True
        end = tool.end
        failure, exit_code = tool_outcome(
            end.get("result"),
            error=end.get("error"),
            is_error=end.get("isError") is True,
            reported_exit_code=end.get("exitCode"),
        )
        extra = told(exit_code=exit_code, updates=tool.updates or None, parent_tool_call_id=end.get("parent"))
        took = measured(end.get("durationMs"))
        # Ids repeat, so the elapsed time is this call's own and not whatever began last under that id.
        duration = max(0, tool.ended_at - tool.at) if took is None else took
        payload = {"result": end.get("result"), "source": end["source"], **extra}
        self._write("tool_result", run, tool, payload, at=tool.ended_at, error=failure, duration_ms=duration)
        tool.arguments, tool.end = None, {}

    def _write(self, event_type: str, run: RecordedRun, tool: RecordedTool, payload: Facts, **known: Any) -> None:
        self._records.write(event_type, run, payload, layer="tool_hooks", tool=tool, **known)
        name = tool.name
        if not is_memory_tool(name):
            return
        arguments = tool.end.get("args") if tool.arguments is None else tool.arguments
        failed = known.get("error") is not None
        lookup = memory_lookup(arguments, payload.get("result"), has_ended=event_type == "tool_result", failed=failed)
        seen = {**payload, "observed_as": event_type, **lookup}
        self._records.write(name, run, seen, layer="tool_hooks", tool=tool, **known)


class ModelCalls:
    """Model calls, and the turns that they make: a turn begins with a request and ends with the next, or the run."""

    def __init__(self, records: Records, tools: ToolCalls) -> None:
        self._records = records
        self._tools = tools

    def start(self, run: RecordedRun, facts: Facts, at: int | None = None) -> None:
        """A request goes out."""
        if run.attempt is not None:
            run.attempt.ended_at = None  # a hook can ask an agent to go on after its end
        self.settle(run)
        if run.model is not None:
            self.end(run, {"outcome": "unobserved"})
        moment = self._records.now() if at is None else at
        self.end_turn(run)
        run.turns += 1
        run.turn = RecordedTurn(run.turns, moment)
        self._records.write("turn_start", run, {"turn": run.turns}, at=moment)
        run.model = RecordedCall(moment, facts)
        run.partial, run.said = None, False
        payload = {**facts, **run.prompt, "turn": run.turns}
        run.prompt = {}
        self._records.write("before_provider_request", run, payload, at=moment)

    def end(self, run: RecordedRun, facts: Facts, usage: Any = None, error: str | None = None) -> None:
        """An answer has come, or failed to. It is held back until its usage or its error is told, unless they are."""
        if run.model is None:
            self.start(run, facts, self._records.before(facts.get("durationMs")))
        call, run.model = run.model, None
        if call is None:
            return
        call.usage = usage if call.usage is None else call.usage
        call.error = error if call.error is None else call.error
        call.facts = {**facts, "outcome": "error"} if call.error is not None else facts
        call.response_at = self._records.now()
        run.response = call
        known = call.error if call.failed else call.usage
        if known is not None or facts.get("outcome") == "unobserved":
            self.settle(run)

    def used(self, run: RecordedRun, output_tokens: int) -> None:
        """What the stream counts at the end of a model call."""
        if run.response is not None:
            run.response.facts["outputTokens"] = output_tokens

    def explained(self, run: RecordedRun, error: str, **cause: Any) -> None:
        """Why a model call failed: the hook that ends it gives only a category."""
        if run.response is not None and run.response.failed:
            run.response.error = error
            run.response.facts.update(told(**cause))
            self.settle(run)

    def saved(self, run: RecordedRun, usage: Any, failure: str | None) -> None:
        """The answer was saved, with its usage."""
        run.said = True
        call = run.response or run.model
        if call is None:
            return
        call.usage = usage if call.usage is None else call.usage
        if failure is not None:
            call.facts["outcome"] = "error"
            call.error = failure if call.error is None else call.error
        if run.response is not None:
            self.settle(run)

    def settle(self, run: RecordedRun) -> None:
        """Write the response that is held back, if there is one."""
        call, run.response = run.response, None
        if call is None or call.response_at is None:
            return
        why = call.error or call.facts.get("errorCategory") or "model call failed"
        run.model_error = why if call.failed else None
        if call.failed and run.turn is not None:
            run.turn.failed = True
        took = measured(call.facts.get("durationMs"))
        duration = max(0, call.response_at - call.at) if took is None else took
        turn = {"turn": run.turn.number} if run.turn is not None else {}
        payload = {**call.asked, **call.facts, **turn, "usage": call.usage}
        at, error = call.response_at, run.model_error
        self._records.write("after_provider_response", run, payload, at=at, error=error, duration_ms=duration)

    def end_turn(self, run: RecordedRun) -> None:
        """What has ended, ended in this turn."""
        for tool in list(run.ending):
            self._tools.finish(run, tool)
        turn, run.turn = run.turn, None
        if turn is not None:
            took = turn.last_at - turn.at
            payload = {"turn": turn.number}
            self._records.write("turn_end", run, payload, at=turn.last_at, failed=turn.failed, duration_ms=took)


class Attempts:
    """The attempts of an agent run: where each began, how it ended, and what it used in all."""

    def __init__(self, records: Records, models: ModelCalls) -> None:
        self._records = records
        self._models = models

    def start(self, source: str, run: RecordedRun, facts: Facts) -> None:
        """An attempt begins, if this source is the first to say so."""
        if not run.is_news("agent_start", source):
            return
        self.settle(run)  # the end of the attempt before this one
        run.attempts += 1
        run.attempt = RecordedAttempt(run.attempts, self._records.now())
        self._records.write("agent_start", run, {"attempt": run.attempts, **facts})

    def end(self, source: str, run: RecordedRun, facts: Facts) -> None:
        """An attempt has ended; more may be told of that."""
        if source == HOOK and run.attempts == 0:
            run.attempts = 1
            run.attempt = RecordedAttempt(1, self._records.before(facts.get("durationMs")))
        attempt = run.attempt
        if attempt is None:
            return
        attempt.facts.update(facts)
        if attempt.ended_at is None:
            attempt.ended_at = self._records.now()

    def totals(self, run: RecordedRun, facts: Facts) -> None:
        """What an attempt used in all; it is the last that is told of it."""
        if run.attempt is not None:
            run.attempt.facts.update(facts)
            self.settle(run)

    def settle(self, run: RecordedRun) -> None:
        """Write the end of an attempt that has ended."""
        attempt = run.attempt
        if attempt is None or attempt.ended_at is None:
            return
        run.attempt = None
        if run.model is not None:
            self._models.end(run, {"outcome": "unobserved"})
        self._models.settle(run)
        if run.partial and not run.said:
            self._records.write("message_end", run, {"role": "assistant", "text": run.partial, "partial": True})
        run.partial = None
        self._models.end_turn(run)
        facts = attempt.facts
        failure = facts.get("error") or run.model_error
        failure = failure or ("ended without success" if facts.get("success") is False else None)
        failure = failure or ("aborted" if facts.get("aborted") is True else None)
        took = measured(facts.get("durationMs"))
        duration = attempt.ended_at - attempt.at if took is None else took
        payload = {"attempt": attempt.number, **facts}
        self._records.write("agent_end", run, payload, at=attempt.ended_at, error=failure, duration_ms=duration)
