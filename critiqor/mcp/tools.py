"""The tools of the MCP server: for each one its arguments, and the function that answers.

Clients wait a few seconds for the server to start, so what only one tool needs is imported by its function.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from critiqor.errors import UsageError
from critiqor.mcp.answers import (
    MAX_ENTRIES,
    MAX_NAME,
    MAX_PAGE,
    NOTICE,
    CheckedStatement,
    ListedRun,
    Page,
    ShownCause,
    ShownCheck,
    ShownComparison,
    ShownEntries,
    ShownEntry,
    ShownExplanation,
    ShownStep,
    ShownVerification,
    limited,
    page_of,
    untrusted,
)
from critiqor.mcp.visible_runs import VisibleRuns, check_session, is_live
from critiqor.model import Event, EventType
from critiqor.model.sanitize import sanitize_line
from critiqor.run.view import RunView

if TYPE_CHECKING:
    from critiqor.conversation.entries import Entry, EntryKind
    from critiqor.run.explanation import ExplainedStep

MAX_SEARCH = 400
MAX_STEPS = 15
"""Maximum number of steps of a chain, and of cited events, that are shown."""
_RUN = Meta(description="Run id, such as run_001. Without it: the run that is being recorded, else the latest one.")
_Offset = Annotated[int, Meta(ge=0, description="Entries to skip; `next_offset` of the previous answer.")]
_Limit = Annotated[int, Meta(ge=1, le=MAX_ENTRIES, description="Maximum number of entries.")]
_RunName = Annotated[str, _RUN]
_OptionalRun = Annotated[str | None, _RUN]
_Text = Annotated[str, Meta(max_length=MAX_SEARCH)]


class _Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all arguments have in common: a misspelled name is an error."""


class ListRuns(_Arguments, frozen=True):
    """List the recorded runs, the newest first, with verdict and headline."""

    offset: _Offset = 0
    limit: _Limit = 20

    def answer(self, runs: VisibleRuns) -> Page[ListedRun]:
        """Answer the tool with a page of the list of runs."""
        return page_of(runs.listed(), self.offset, self.limit)


class GetDiagnosis(_Arguments, frozen=True):
    """Get the verdict on a run and its findings, the worst first. A run in progress is judged by its events so far."""

    run: _OptionalRun = None
    offset: _Offset = 0
    limit: _Limit = 10

    def answer(self, runs: VisibleRuns) -> object:
        """Answer the tool with the verdict and a page of findings."""
        from critiqor.mcp.diagnoses import shown_diagnosis

        return shown_diagnosis(runs.open(self.run), self.offset, self.limit)


class ExplainFinding(_Arguments, frozen=True):
    """Explain one finding of a finalized run: what happened, step by step, with the recorded events that show it."""

    run: _OptionalRun = None
    finding: Annotated[
        str | None, Meta(description="Id or type of the finding, such as finding_001. Without it: the main finding.")
    ] = None

    def answer(self, runs: VisibleRuns) -> ShownExplanation:
        """Answer the tool with the finding, its causal chain and its evidence."""
        from critiqor.mcp.answers import shown_finding
        from critiqor.run.explanation import explain_finding

        view = runs.open(self.run)
        main = view.require_diagnosis().primary_diagnosis
        explanation = explain_finding(view, self.finding or ("" if main is None else main.finding_id))
        chain, evidence = (
            page_of((_step(step, view) for step in steps), 0, MAX_STEPS, MAX_PAGE // 2).entries
            for steps in (explanation.chain, explanation.evidence)
        )
        return ShownExplanation(
            run=view.run_id,
            finding=shown_finding(explanation.finding),
            verification=untrusted(explanation.finding.verification),
            chain=chain,
            evidence=evidence,
            left_out=len(explanation.chain) - len(chain) + len(explanation.evidence) - len(evidence),
        )


class GetConversation(_Arguments, frozen=True):
    """Get the messages, tool calls, results, compactions, retries and errors of a run, in order."""

    run: _OptionalRun = None
    session: Annotated[str | None, Meta(description="Session key. Without it: all sessions.")] = None
    offset: _Offset = 0
    limit: _Limit = 20

    def answer(self, runs: VisibleRuns) -> ShownEntries:
        """Answer the tool with a page of the conversation."""
        view = runs.open(self.run)
        entries = page_of(_conversation(view, self.session), self.offset, self.limit)
        if self.session is not None and not entries.entries:
            check_session(view, self.session)
        return ShownEntries(run=view.run_id, is_live=is_live(view), entries=entries)


class SearchEvents(_Arguments, frozen=True):
    """Search the events of a run by words, event type, tool or status. An event must match all of them."""

    text: Annotated[_Text, Meta(description="Words that the event contains; each can be the beginning of a word.")] = ""
    run: _OptionalRun = None
    event_type: Annotated[_Text, Meta(description="Such as tool_call, tool_output, message_end.")] = ""
    tool_name: _Text = ""
    status: Annotated[_Text, Meta(description="ok or error.")] = ""
    offset: _Offset = 0
    limit: _Limit = 20

    def answer(self, runs: VisibleRuns) -> ShownEntries:
        """Answer the tool with a page of matching events."""
        from critiqor.dashboard.data.event_index import EventFilter

        wanted = EventFilter(event_type=self.event_type, tool_name=self.tool_name, status=self.status, text=self.text)
        if not wanted.names and not self.text.strip():
            raise UsageError("there is nothing to search for", fix="pass text, event_type, tool_name or status")
        view = runs.open(self.run)
        found = (_entry(event) for event in view.events() if wanted.matches(event))
        return ShownEntries(run=view.run_id, is_live=is_live(view), entries=page_of(found, self.offset, self.limit))


class CompareRuns(_Arguments, frozen=True):
    """Compare a run from before a change with one from after it: problems gone, new and remaining, and figures."""

    before: _RunName
    after: _RunName

    def answer(self, runs: VisibleRuns) -> ShownComparison:
        """Answer the tool with the comparison."""
        from critiqor.comparison.causes import CauseChange
        from critiqor.comparison.compare import compare

        views = [runs.open(name) for name in (self.before, self.after)]
        first, second = (view.require_diagnosis() for view in views)
        found = compare(first, second, [view.unproven.message for view in views if view.unproven is not None])

        def causes(changes: list[CauseChange]) -> Page[ShownCause]:
            shown = (
                ShownCause(
                    type=change.type,
                    title=untrusted(change.title, 300),
                    severity_before=change.severity_before,
                    severity_after=change.severity_after,
                )
                for change in changes
            )
            return page_of(shown, 0, 10)

        return ShownComparison(
            before=found.before,
            after=found.after,
            verdict=found.verdict,
            summary=untrusted(found.summary),
            gone=causes(found.gone),
            new=causes(found.new),
            still_there=causes(found.still_there),
            figures=msgspec.to_builtins(found.figures),
            notes=list(limited(found.notes, 10)),
        )


class VerifyRun(_Arguments, frozen=True):
    """Check that the evidence of a run is unchanged since it was sealed, and who signed it."""

    run: _OptionalRun = None

    def answer(self, runs: VisibleRuns) -> ShownVerification:
        """Answer the tool with the result of every check."""
        view = runs.open(self.run)
        found = view.verify()
        return ShownVerification(
            run=view.run_id,
            state=found.state,
            explanation=sanitize_line(found.explanation),
            checks=[
                ShownCheck(name=check.name, state=check.state, explanation=sanitize_line(check.explanation))
                for check in found.checks
            ],
        )


class CheckClaim(_Arguments, frozen=True):
    """Check whether a sentence about the work of an agent is supported by what was recorded.

    Call it before you report that something is done, passes, was sent or was checked, with the sentence that you are
    about to write. On a run in progress, the answer is that of the events so far, and says so.
    """

    claim: Annotated[str, Meta(description="The sentence, as you would write it: All 14 tests pass.")]
    run: _OptionalRun = None
    session: Annotated[
        str | None, Meta(description="Session key. Without it: the session that asks, else the latest one.")
    ] = None

    def answer(self, runs: VisibleRuns) -> CheckedStatement:
        """Answer the tool with the status of the sentence and of each claim in it."""
        from critiqor.mcp.claims import check_statement

        return check_statement(runs.open(self.run), self.claim, self.session)


_Tool = (
    type[ListRuns]
    | type[GetDiagnosis]
    | type[ExplainFinding]
    | type[GetConversation]
    | type[SearchEvents]
    | type[CompareRuns]
    | type[VerifyRun]
    | type[CheckClaim]
)
TOOLS: dict[str, _Tool] = {
    "list_runs": ListRuns,
    "get_diagnosis": GetDiagnosis,
    "explain_finding": ExplainFinding,
    "get_conversation": GetConversation,
    "search_events": SearchEvents,
    "compare_runs": CompareRuns,
    "verify_run": VerifyRun,
    "check_claim": CheckClaim,
}


class ToolDescription(NamedTuple):
    """A tool as clients see it."""

    name: str
    description: str
    schema: dict[str, Any]


def describe_tools() -> list[ToolDescription]:
    """Return every tool with its description and the JSON Schema of its arguments."""
    found = []
    for name, arguments in TOOLS.items():
        _, parts = msgspec.json.schema_components([arguments])
        schema = dict(parts[arguments.__name__])
        schema.pop("title", None)
        text = " ".join(str(schema.pop("description")).split())
        found.append(ToolDescription(name, text, schema))
    return found


def call_tool(name: str, arguments: dict[str, Any], runs: VisibleRuns) -> bytes:
    """Answer a call as JSON. Raise `UsageError` for an unknown tool and for wrong arguments."""
    tool = TOOLS.get(name)
    if tool is None:
        raise UsageError(f"there is no tool {sanitize_line(name, 100)}", fix=f"use one of {', '.join(TOOLS)}")
    try:
        request = msgspec.convert(arguments, tool)
    except msgspec.ValidationError as error:
        names = ", ".join(field.name for field in msgspec.structs.fields(tool)) or "no arguments"
        raise UsageError(f"wrong arguments: {sanitize_line(str(error))}", fix=f"{name} takes {names}") from error
    return msgspec.json.encode({"notice": NOTICE, "answer": request.answer(runs)})


def _step(step: ExplainedStep, view: RunView) -> ShownStep:
    # The explanation has the events as they are; an anonymous run shows none of their values.
    shown = [] if view.is_anonymous else list(limited(step.shown, 6, 300))
    return ShownStep(event=step.event_id, happened=untrusted(step.happened, 300), relation=step.relation, shown=shown)


def _conversation(view: RunView, session: str | None) -> Iterator[ShownEntry]:
    from critiqor.conversation.entries import ConversationBuilder

    conversations = ConversationBuilder()
    for number, event in enumerate(view.events(), 1):
        entry = conversations.observe(number, event)
        if entry is None or session not in (None, event.session_key):
            continue
        text = _conversation_text(entry, event)
        if text or entry.kind != "agent":  # a message that only requests tools
            yield _entry(event, text, entry.kind)


def _conversation_text(entry: Entry, event: Event) -> str:
    from critiqor.conversation.entries import tool_arguments
    from critiqor.conversation.entry_text import entry_text, tool_result
    from critiqor.diagnosis.collections.fingerprints import canonical_json
    from critiqor.diagnosis.signals.text import plain_text

    if event.event_type == EventType.TOOL_CALL:
        return canonical_json(tool_arguments(event))
    if entry.kind == "tool":
        return plain_text(tool_result(event))
    has_begun_only = entry.kind == "compaction" and event.event_type == "compaction_start"
    return "" if has_begun_only else entry_text(entry, event)


def _entry(event: Event, text: str | None = None, kind: EntryKind | None = None) -> ShownEntry:
    from critiqor.diagnosis.collections.fingerprints import canonical_json
    from critiqor.privacy.replacements import anonymous_name

    return ShownEntry(
        event=event.event_id,
        at=event.timestamp,
        # An imported file or a damaged journal can contain any text here; only well-known names are not marked.
        kind=anonymous_name("event_type", event.event_type),
        entry=kind,
        session=untrusted(event.session_key, MAX_NAME),
        tool=untrusted(event.tool_name, MAX_NAME),
        status=anonymous_name("status", event.status),
        error=untrusted(event.error, 400),
        text=untrusted(canonical_json(event.payload) if text is None else text),
    )
