"""`repeated_side_effect`: an action that must happen only once was done twice."""

from __future__ import annotations

import re
from collections import deque

from critiqor.diagnosis.claims.language import language_of, normalize
from critiqor.diagnosis.collections.recent import Recent
from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.drafts.call_groups import CallGroup
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.drafts.merging import PastDrafts
from critiqor.diagnosis.loops.effects import is_unclear, shown_effects
from critiqor.diagnosis.signals.text import words
from critiqor.diagnosis.signals.tool_calls import runs_commands
from critiqor.model import CausalStep
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, Message, ToolCall, command_line

TYPE = "repeated_side_effect"
MEANING = "an action that should happen once was repeated"
MAX_REPEATED = 256
"""Maximum number of repeated actions that are tracked one by one."""
MAX_SEARCHED_CALLS = 50
"""Maximum number of calls before a repeated action that are searched for a check of the earlier one."""
_ONCE = re.compile(r"idempoten|dedup|request[_-]?token|client[_-]?(?:token|request)|unique[_-]?key", re.IGNORECASE)
"""Arguments with which a service does the same request only once."""
_REPETITION_WORDS = re.compile(r"\b(?:twice|thrice|times|again|repeat\w*|every|each)\b", re.IGNORECASE)
_ONCE_MORE = re.compile(
    r"\b(?:once|one) more\b|\bone more time\b|\bsecond time\b|noch ?(?:ein)?mal|otra vez|una vez más|encore une fois"
    r"|mais uma vez|outra vez|ancora una volta|nogmaals|nog een keer|jeszcze raz|(?:ещё|еще) раз|bir kez daha|tekrar"
    r"|再(?:发|次|送)|もう一度|もう1回|한 번 더|다시 한|مرة أخرى",
    re.IGNORECASE,
)
_UNDOES = re.compile(
    r"(?<![a-z])(?:delet|remov|cancel|void|revok|undo|recall|unsend|refund|revers|trash|storn|withdraw|credit)",
    re.IGNORECASE,
)
_EVERYWHERE = frozenset(("exec", "bash", "curl", "https", "api", "com"))
_EFFECTS = (Kind.CHANGE, Kind.ACTION, Kind.COMMAND, Kind.OTHER)
_KEY = re.compile(r'"(\w+)":')


class _Action:
    """All executions of one action."""

    def __init__(self, call: ToolCall) -> None:
        self.repeated = CallGroup(call)
        """The first execution and each unnecessary repetition."""
        self.last = call
        self.index = 0
        """Index of the last execution among all calls."""
        self.effects = 0
        """Number of successful calls with an effect, up to the last execution."""
        self.switches = 0
        """How often these calls had changed from one tool to another until then."""
        self.is_single = False
        """Whether a later lookup shows that only one of the executions took effect."""
        self.is_undone = False
        """Whether a later call took a repetition back."""
        self.draft: tuple[tuple[int, str], Draft] | None = None
        """The last draft, and what it depends on: most repeated actions of a batch do not change any more."""


class RepeatedSideEffect(RunDetector[ToolCall | Message]):
    """Remembers every action, and judges a repetition by what happened since."""

    NEEDS = ("action",)
    OBSERVES = (ToolCall, Message)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._actions: Recent[bytes, _Action] = Recent()
        self._repeated: dict[int, _Action] = {}
        """Actions that were repeated, by the position of their first execution."""
        self._batches: dict[str, _Action] = {}
        """Batches of actions that were executed again, by tool."""
        self._past = PastDrafts()
        """Drafts for repeated actions that are no longer tracked."""
        self._recent: deque[ToolCall] = deque(maxlen=MAX_SEARCHED_CALLS)
        self._index = 0
        self._effects = 0
        self._switches = 0
        """How often the calls with an effect changed from one tool to another."""
        self._tool = ""
        """The tool of the last call with an effect."""
        self._request: Message | None = None
        self._told = -1
        """Position of the last message that says that something happened twice."""

    def observe(self, span: ToolCall | Message, /) -> None:
        if isinstance(span, Message):
            if span.is_user:
                self._request = span
            elif span.tells_repetition:
                self._told = span.order
            return
        is_action = span.kind is Kind.ACTION and (not span.failed or is_unclear(span))
        if self._repeated and not span.failed:
            self._follow_up(span)
        known: _Action | None = None
        if is_action:
            known = self._actions.get(span.same_call)
            is_known = known is not None
            known = self._actions[span.same_call] = known or _Action(span)
            if is_known and self._is_unnecessary(known, span):
                self._add_repetition(known, span)
        # Most tools of which the name says nothing show something.
        if span.kind in _EFFECTS and span.kind is not Kind.OTHER and not span.failed:
            self._effects += 1
            self._switches += span.tool != self._tool
            self._tool = span.tool
        if is_action and known is not None:
            known.last, known.index = span, self._index
            known.effects, known.switches = self._effects, self._switches
        self._recent.append(span)
        self._index += 1

    def _follow_up(self, call: ToolCall) -> None:
        """Note what a call shows or changes about the actions that were repeated before."""
        if call.kind in _EFFECTS:
            for action in self._repeated.values():
                action.is_undone = action.is_undone or _undoes(call, action.last)
        elif call.result is not None:
            for action in self._repeated.values():
                if is_unclear(action.repeated.first) and _checks(call, action.last):
                    action.is_single = shown_effects(call, action.last) == 1

    def _add_repetition(self, known: _Action, call: ToolCall) -> None:
        # The actions of a batch that is sent again are one finding.
        is_batch = known.effects != self._effects and not is_unclear(known.last)
        action = self._batches.setdefault(call.tool, _Action(known.last)) if is_batch else known
        action.repeated.add(call)
        action.last = call
        self._report(action)

    def _report(self, action: _Action) -> None:
        self._repeated[action.repeated.first.order] = action
        if len(self._repeated) > MAX_REPEATED:
            oldest = min(self._repeated)
            # It may be repeated again: that is another draft with the same cause.
            forgotten = self._repeated.pop(oldest)
            group = forgotten.repeated
            self._past.add(self._draft(forgotten))
            for known in (self._actions.get(group.first.same_call), self._batches.get(group.first.tool)):
                if known is not None and known.repeated is group:
                    known.repeated = CallGroup(group.last)

    def _is_unnecessary(self, known: _Action, call: ToolCall) -> bool:
        """Return whether an action was repeated without a request of the user, a check of its outcome or other work."""
        before, request = known.last, self._request
        if _ONCE.search(call.arguments):
            return False
        if request is not None and (request.order > before.order or _asks_for_repetition(request.text)):
            return False
        if not is_unclear(before):
            # A batch that is sent again consists of actions of one tool.
            is_batch = known.switches == self._switches and not runs_commands(call.tool)
            return known.effects == self._effects or is_batch
        since = self._index - known.index - 1
        recent = list(self._recent)[-since:] if since else []
        checks = [lookup for lookup in recent if _checks(lookup, before)]
        # A look that shows that it took effect is no reason to repeat it.
        return not checks or shown_effects(checks[-1], before) > 0

    def findings(self) -> list[Draft]:
        repeated = sorted(self._repeated.values(), key=lambda action: action.repeated.first.order)
        return [*self._past.all, *(self._draft(action) for action in repeated)]

    def _draft(self, action: _Action) -> Draft:
        group = action.repeated
        first, second = group.first, group.second or group.first
        is_told = self._told > second.order
        known = " The agent undid it." if action.is_undone else " The agent says so." if is_told else ""
        known = known or (" A later lookup shows only one." if action.is_single else "")
        if action.draft is not None and action.draft[0] == (len(group), known):
            return action.draft[1]
        unclear = first.failed or first.result is None
        outcome = f"had an unclear outcome ({excerpt(first.error or 'no result', 60)})" if unclear else "had succeeded"
        draft = Draft(
            type=TYPE,
            about=(first.tool,),
            severity="low" if known else "high",
            confidence=80 if unclear else 85,
            title=f"{counted(len(group) - 1, 'action')} of `{first.tool}` had been executed before in the same way"
            if len(group.distinct) > 1
            else f"{first.name} was executed {counted(len(group), 'time')} with the same arguments",
            explanation=f"The first call {outcome}, and it was repeated: {excerpt(first.arguments, 140)}{known}",
            evidence=group.citations.cited(),
            occurrences=len(group) - 1,
            first_bad_step=second.call,
            chain=[
                CausalStep(first.evidence, f"{first.name} {outcome}", None),
                CausalStep(second.evidence, "Done again", "retried"),
            ],
            wasted_tool_calls=group.wasted,
            scope=self.run.scope,
            recommendation=f"Give {first.name} an idempotency key, and have the agent check whether the first call "
            "took effect before it tries again.",
            verification="Run the same task again: the action happens once, or the agent checks before it repeats it.",
        )
        action.draft = ((len(group), known), draft)
        return draft


def _asks_for_repetition(request: str) -> bool:
    """Return whether a request speaks of repetition, other than to exclude it: only once please."""
    if _ONCE_MORE.search(request):
        return True
    if not _REPETITION_WORDS.search(request):
        return False
    language = language_of(request)
    return language is None or not language.vocabulary.mentions("once", normalize(request))


def _undoes(call: ToolCall, action: ToolCall) -> bool:
    """Return whether a call takes back what an action made: it cancels or deletes something of the same kind."""
    if call.tool == action.tool and call.kind is not Kind.ACTION and not command_line(call.arguments):
        return False
    done, undone = f"{action.tool} {command_line(action.arguments)}", f"{call.tool} {command_line(call.arguments)}"
    if not _UNDOES.search(undone) or _UNDOES.search(action.tool):
        return False
    return any(len(word) > 2 and word not in _EVERYWHERE for word in words(done) & words(undone))


def _checks(call: ToolCall, action: ToolCall) -> bool:
    """Return whether a call is a lookup of something that the action was about."""
    if call.failed or call.result is None or call.kind not in (Kind.LOOKUP, Kind.WAIT):
        return False
    about = words(f"{action.tool} {action.arguments}") - words(" ".join(_KEY.findall(action.arguments)))
    return not about.isdisjoint(words(f"{call.tool} {call.arguments}"))
