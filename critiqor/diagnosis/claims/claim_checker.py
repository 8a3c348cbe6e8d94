"""Checks what agents say against what was recorded: one episode after the other, each when it is complete.

An episode is one request and everything it led to. Only the texts of episodes under way, and of the last ones of each
session, are kept, so memory does not grow with the recording.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from critiqor.diagnosis.claims.checked import CheckedClaim
from critiqor.diagnosis.claims.checks.all_checks import check_episode
from critiqor.diagnosis.claims.checks.failures import admitted_failures, is_beside
from critiqor.diagnosis.claims.deeds.outgoing import outgoing_texts, without_texts
from critiqor.diagnosis.claims.episode import (
    MAX_ARGUMENTS,
    MAX_CALLS,
    MAX_OUTPUT,
    Episode,
    EpisodeCall,
    EpisodeText,
)
from critiqor.diagnosis.claims.lookups import Lookups
from critiqor.diagnosis.claims.task import combine, task_of
from critiqor.diagnosis.collections.orders import Orders
from critiqor.diagnosis.conduct.all_lapses import find_lapses
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.drafts.merging import JudgedDrafts
from critiqor.diagnosis.hazards.all_hazards import find_hazards
from critiqor.diagnosis.results.check_commands import is_check
from critiqor.diagnosis.signals.secrets import REDACTION_MARK
from critiqor.model import CausalStep, Claim, Event, Scope, TaskOutcome
from critiqor.model.sanitize import excerpt, sanitize_line
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, Moment, ToolCall, command_line

MAX_EARLIER = 3
"""Maximum number of earlier episodes of a session that are kept."""
MAX_SESSIONS = 64
"""Maximum number of sessions whose texts are kept."""
MAX_SESSION_SIZE = 256 * 1024
"""Maximum number of characters that are kept of a session; of a longer one, the last calls."""
MAX_SIZE = 24 * 1024 * 1024
"""Maximum number of characters that are kept of all sessions. Beyond it, those that were silent longest are judged."""
MAX_TEXT = 64 * 1024
"""Maximum number of characters that are kept of a message."""
MAX_AWAITED = 1_000
"""Maximum number of calls whose result is awaited."""
MAX_AWAITED_SIZE = 4 * 1024 * 1024
"""Maximum number of characters of their arguments."""
MAX_COMPACTIONS = 16
"""Maximum number of compactions of an episode that are kept: the last ones."""
MAX_CLAIMS = 400
"""Maximum number of claims that are listed, apart from those that are problems."""
MAX_PROBLEMS = 1_000
"""Maximum number of claims that are listed if they are problems."""
RAISES_ERRORS = False
"""Whether an error in a check is raised. Tests set it; a user gets a verdict without that check, which says so."""
_TOKEN = re.compile(r"\s*[A-Z][A-Z_]{3,}\s*")


class _Expected(NamedTuple):
    """What an episode that was not judged yet leads to."""

    episode: Episode
    drafts: list[Draft]
    task: TaskOutcome | None
    """None if there is no answer yet."""


class ClaimChecker:
    """Collects episodes while a recording is observed, and checks the claims of each."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, Episode] = OrderedDict()
        """The episode under way of each session."""
        self._size = 0
        """Number of characters that are kept of all sessions."""
        self._arguments: dict[int, str] = {}
        """Arguments of calls whose result is awaited, by position of the call."""
        self._arguments_size = 0
        self.claims: list[Claim] = []
        self.lookups = Lookups()
        self.judged = JudgedDrafts()
        """The drafts of the episodes that were judged."""
        self.tasks: dict[str | None, TaskOutcome] = {}
        """Whether the requests of each session were fulfilled."""
        self.not_checked = 0
        """Number of episodes that could not be checked because of an error in a check."""
        self._touched: set[str] = set()
        """Sessions with something new since the last call of `drafts_so_far`."""
        self._expected: dict[str, list[_Expected]] = {}
        """What the last episodes of each session would lead to if they ended now."""

    def add_message(self, run: AgentRun, event: Event, text: str, order: int, *, is_user: bool) -> None:
        """Add a message of the user or the agent."""
        if not text.strip() or _TOKEN.fullmatch(text):
            return
        added = EpisodeText(order=order, event_id=event.event_id, text=text[:MAX_TEXT], timestamp=event.timestamp)
        episode = self._episode(run.scope)
        if is_user:
            if episode.messages or episode.calls:
                episode = self._next(run.scope, episode)
            episode.requests.append(added)
        else:
            messages, calls = episode.messages, episode.calls
            if messages and messages[-1].text == added.text and not (calls and calls[-1].order > messages[-1].order):
                return  # the end of an agent run repeats its answer
            messages.append(added)
            if len(messages) > MAX_CALLS:
                del messages[0]
        self._grow(episode, len(added.text))

    def start_call(self, run: AgentRun, call: ToolCall, arguments: str) -> None:
        """Add a tool call that starts."""
        self._arguments[call.order] = arguments
        self._arguments_size += len(arguments)
        # Of a forgotten call, the beginning of its arguments is still known.
        while len(self._arguments) > MAX_AWAITED or self._arguments_size > MAX_AWAITED_SIZE:
            self._arguments_size -= len(self._arguments.pop(next(iter(self._arguments))))

    def end_call(self, run: AgentRun, call: ToolCall, text: str, exit_code: int | None, *, is_whole: bool) -> None:
        """Add the result of a tool call. `is_whole`: the recorder kept all of its output."""
        awaited = self._arguments.pop(call.order, None)
        arguments = call.arguments if awaited is None else awaited
        self._arguments_size -= len(awaited or "")
        if call.wraps or call.kind is Kind.THOUGHT:
            return
        episode = self._episode(run.scope)
        line = _unescaped(command_line(arguments))
        added = EpisodeCall(
            order=call.order,
            call_id=call.call,
            result_id=call.evidence,
            tool=call.tool,
            kind=call.kind,
            arguments=_ends(arguments, MAX_ARGUMENTS),
            facts="",
            line=_ends(line, MAX_ARGUMENTS),
            text=_ends(text, MAX_OUTPUT),
            exit_code=exit_code,
            reported_failure=call.failed,
            is_check=call.is_test or is_check(line),
            is_cut=not is_whole or REDACTION_MARK in text,
            is_shortened=len(text) > MAX_OUTPUT,
        )
        outgoing = outgoing_texts(added, arguments, line)
        added.facts = _ends(without_texts(arguments, outgoing), MAX_ARGUMENTS) if outgoing else added.arguments
        episode.calls.append(added)
        episode.outgoing += outgoing
        if len(episode.calls) > MAX_CALLS:
            self._drop_call(episode)
        self._grow(episode, added.size + sum(len(each.text) for each in outgoing))

    def end_run(self, run: AgentRun, end: Moment) -> None:
        """Note that an agent run has ended; what follows in the session belongs to another one."""
        episode = self._episode(run.scope)
        episode.ended_at = end.order
        episode.was_broken_off = end.status == "error" or run.was_stopped

    def add_compaction(self, run: AgentRun, order: int) -> None:
        """Note that the history of a session was replaced by a summary."""
        compactions = self._episode(run.scope).compactions
        compactions.append(order)
        del compactions[:-MAX_COMPACTIONS]

    def _grow(self, episode: Episode, size: int) -> None:
        """Note that an episode under way has grown, and drop what is too much: of its session, then of all."""
        episode.size += size
        self._size += size
        kept = episode.size + sum(each.size for each in episode.earlier)
        while kept > MAX_SESSION_SIZE and episode.earlier:
            oldest = episode.earlier.pop()
            if not episode.earlier:
                self._judge(oldest)  # it waited for the end of this one
                oldest.following = None
            kept -= oldest.size
            self._size -= oldest.size
            episode.has_dropped = True
        while episode.size > MAX_SESSION_SIZE and len(episode.calls) > 1:
            self._drop_call(episode)
        while episode.size > MAX_SESSION_SIZE and len(episode.messages) > 1:
            self._shrink(episode, len(episode.messages.pop(0).text))
        while self._size > MAX_SIZE and len(self._open) > 1:
            self._finish_silent()

    def _drop_call(self, episode: Episode) -> None:
        call = episode.calls.pop(0)
        call.forget_readings()
        dropped = [text for text in episode.outgoing if text.call is call]
        if dropped:
            episode.outgoing = [text for text in episode.outgoing if text.call is not call]
        self._shrink(episode, call.size + sum(len(text.text) for text in dropped))

    def _shrink(self, episode: Episode, size: int) -> None:
        episode.size -= size
        self._size -= size
        episode.has_dropped = True

    def _episode(self, scope: Scope) -> Episode:
        key = scope.session_key or scope.agent_run_id or ""
        self._touched.add(key)
        episode = self._open.get(key)
        if episode is None:
            episode = self._open[key] = Episode(session_key=scope.session_key, agent_run_id=scope.agent_run_id)
            if len(self._open) > MAX_SESSIONS:
                self._finish_silent()
        else:
            self._open.move_to_end(key)
            if episode.agent_run_id != scope.agent_run_id and not episode.calls and not episode.messages:
                episode.agent_run_id = scope.agent_run_id
        return episode

    def _next(self, scope: Scope, episode: Episode) -> Episode:
        # An episode is judged when the next one is complete: what it leaves open may be done then.
        if episode.earlier:
            judged = episode.earlier[0]
            self._judge(judged)
            judged.release()
        earlier = [episode, *episode.earlier]
        for dropped in earlier[MAX_EARLIER:]:
            self._size -= dropped.size
        del earlier[MAX_EARLIER:]
        following = Episode(session_key=scope.session_key, agent_run_id=scope.agent_run_id, earlier=earlier)
        following.has_dropped = episode.has_dropped or len(episode.earlier) >= MAX_EARLIER
        episode.following = following
        self._open[scope.session_key or scope.agent_run_id or ""] = following
        return following

    def first_kept(self, scope: Scope) -> int | None:
        """Return the position of the first call of a session that claims may still be about; None if there is none."""
        episode = self._open.get(scope.session_key or scope.agent_run_id or "")
        if episode is None:
            return None
        kept = (call.order for each in (episode, *episode.earlier) for call in each.calls)
        return min(kept, default=None)

    def conclude(self) -> None:
        """Check the episodes that are left."""
        while self._open:
            self._finish_silent()

    def _finish_silent(self) -> None:
        """Check what is left of the session that was silent longest."""
        _, episode = self._open.popitem(last=False)
        self._finish(episode)

    def drafts_so_far(self, *, is_recording: bool = False) -> list[Draft]:
        """Return the drafts of all episodes, those under way as if they ended now. The next answer is not affected.

        With `is_recording`, claims are checked when an agent run has ended: what an agent says in between is not final,
        and each check reads the whole episode.
        """
        for key in self._touched & self._open.keys():
            episode = self._open[key]
            last = _as_it_is(episode)
            before = [(one, msgspec.structs.replace(one, following=last)) for one in episode.earlier[:1]]
            if is_recording and not episode.has_ended:
                known = {id(each.episode): each for each in self._expected.get(key, ())}
                expected = [known.get(id(one)) or _expected(one, as_ended) for one, as_ended in before]
                expected.append(_Expected(episode, find_hazards(last), None))
            else:
                expected = [_expected(one, as_ended) for one, as_ended in (*before, (episode, last))]
            self._expected[key] = expected
        self._touched.clear()
        self._expected = {key: self._expected[key] for key in self._open if key in self._expected}
        waiting = (draft for expected in self._expected.values() for each in expected for draft in each.drafts)
        return [*self.judged.all, *waiting]

    def tasks_so_far(self) -> dict[str | None, TaskOutcome]:
        """Return whether the requests of each session were fulfilled, as of the last call of `drafts_so_far`."""
        tasks = dict(self.tasks)
        for expected in self._expected.values():
            for episode, _, task in expected:
                if task is not None:
                    tasks[episode.session_key] = combine(tasks.get(episode.session_key), task)
        return tasks

    def _finish(self, episode: Episode) -> None:
        """Check the last two episodes of a session, and forget it."""
        if episode.earlier:
            self._judge(episode.earlier[0])
        self._judge(episode)
        self._size -= episode.size + sum(each.size for each in episode.earlier)
        # Garbage collection is paused while a run is diagnosed, so episodes must not refer to each other in a circle.
        for each in (*episode.earlier, episode):
            each.release()

    def _judge(self, episode: Episode) -> None:
        try:
            self._add_findings(episode)
        except Exception:
            # No text of an agent may prevent a verdict.
            if RAISES_ERRORS:
                raise
            self.not_checked += 1
        for each in (episode, *episode.earlier):
            for call in each.calls:
                call.forget_readings()

    def _add_findings(self, episode: Episode) -> None:
        _forget_language(episode)
        for found in (*find_hazards(episode), *find_lapses(episode)):
            self.judged.add(found)
        if episode.answer is None and not episode.outgoing:
            return
        episode.lists_all = len(self.claims) < MAX_CLAIMS
        claims = _judged(episode)
        task = task_of(episode, claims)
        self.tasks[episode.session_key] = combine(self.tasks.get(episode.session_key), task)
        for checked in claims:
            if len(self.claims) < (MAX_CLAIMS if checked.problem is None else MAX_PROBLEMS):
                self.claims.append(_claim(episode, checked))
                if checked.lookup is not None:
                    draft = _draft(episode, checked) if checked.problem is not None else None
                    self.lookups.add(checked.lookup, len(self.claims) - 1, draft)
            if checked.problem is not None and checked.lookup is None:
                self.judged.add(_draft(episode, checked))

    def check_statement(
        self, session_key: str | None, statement: str, events: Callable[[], Iterable[Event]]
    ) -> list[Claim] | None:
        """Return the claims of a statement as if it were an agent's answer now. No claim of the recording changes.

        An answer that passes over a failure is not right, and one that only reports a failure is. None if nothing is
        known of the session. `events` reads the recording once more, for values to look up in it.
        """
        now = self._open.get(session_key or "")
        if now is None:
            return None
        orders = [text.order for text in (*now.requests, *now.messages)] + [call.order for call in now.calls]
        order = max(orders, default=0) + 1
        said = EpisodeText(order=order, event_id="statement", text=statement)
        episode = _as_it_is(now)
        episode.messages, episode.outgoing, episode.ended_at, episode.was_broken_off = [said], [], order, False
        lookups, claims = Lookups(), []
        for checked in _judged(episode) or admitted_failures(episode):
            if checked.text is said:
                if is_beside(episode, checked):
                    failed = checked.calls[0].name
                    reason = f"it is about nothing that was recorded; it does not say that {failed} failed"
                    checked = msgspec.structs.replace(checked, status="unverifiable", reason=reason, problem=None)
                claims.append(_claim(episode, checked))
                if checked.lookup is not None:
                    draft = _draft(episode, checked) if checked.problem is not None else None
                    lookups.add(checked.lookup, len(claims) - 1, draft)
        if lookups.values:
            lookups.search(events(), claims)
        return claims

    def look_up(self, events: Iterable[Event]) -> None:
        """Look up in all events the values that are not in what is kept of them."""
        for draft in self.lookups.search(events, self.claims):
            self.judged.add(draft)


def _as_it_is(episode: Episode) -> Episode:
    """Return a copy of an episode under way, without what is known of it as long as nothing is added."""
    copy = Episode(
        session_key=episode.session_key,
        agent_run_id=episode.agent_run_id,
        requests=episode.requests,
        calls=episode.calls,
        messages=episode.messages,
        outgoing=episode.outgoing,
        earlier=episode.earlier,
        has_dropped=episode.has_dropped,
        ended_at=episode.ended_at,
        was_broken_off=episode.was_broken_off,
        compactions=episode.compactions,
    )
    _forget_language(copy)
    return copy


def _forget_language(episode: Episode) -> None:
    """Forget how texts were read in another language than the episode has now: short ones are read in its language."""
    for text in (*episode.requests, *episode.messages, *episode.outgoing):
        if text.speech is not None and text.speech.language is not episode.language:
            text.speech = None


def _expected(episode: Episode, as_ended: Episode) -> _Expected:
    """Return what an episode leads to, given as it would be if it had ended now; nothing if a check fails."""
    try:
        drafts = [*find_hazards(as_ended), *find_lapses(as_ended)]
        if as_ended.answer is None and not as_ended.outgoing:
            return _Expected(episode, drafts, None)
        claims = _judged(as_ended)
        drafts += [_draft(as_ended, one) for one in claims if one.problem is not None and one.lookup is None]
        return _Expected(episode, drafts, task_of(as_ended, claims))
    except Exception:
        if RAISES_ERRORS:
            raise
        return _Expected(episode, [], None)  # counted when the episode is judged


def _judged(episode: Episode) -> list[CheckedClaim]:
    """Return the checked claims of an episode; those of an answer that hands its problem to the user weigh little.

    An agent that reports trouble and asks what to do hides nothing that matters; a wrong number stays wrong.
    """
    claims = check_episode(episode)
    if not any(claim.problem is not None for claim in claims) or not _asks_about_trouble(episode):
        return claims
    return [
        msgspec.structs.replace(claim, problem=msgspec.structs.replace(claim.problem, severity="low"))
        if claim.problem is not None and claim.kind != "value"
        else claim
        for claim in claims
    ]


def _asks_about_trouble(episode: Episode) -> bool:
    """Return whether an answer reports trouble and ends with a question."""
    stances = episode.speech(episode.answer).stances if episode.answer is not None else []
    is_asked = any(stance.is_question for stance in stances[-2:])
    return is_asked and any(one.is_bad_news and not (one.is_plan or one.is_question) for one in stances)


def _claim(episode: Episode, checked: CheckedClaim) -> Claim:
    return Claim(
        session_key=episode.session_key,
        agent_run_id=episode.agent_run_id,
        event_id=checked.text.event_id,
        start=checked.text.offset + checked.start,
        end=checked.text.offset + checked.end,
        text=excerpt(checked.quote, 300),
        kind=checked.kind,
        status=checked.status,
        reason=sanitize_line(checked.reason),
        evidence=cite_events((*(call.result_id for call in checked.calls), *(text.event_id for text in checked.given))),
    )


def _draft(episode: Episode, checked: CheckedClaim) -> Draft:
    problem = checked.problem
    assert problem is not None
    said = CausalStep(checked.text.event_id, f"The agent wrote: {excerpt(checked.quote, 80)}", "contradicted")
    steps = [CausalStep(call.result_id, _happened(call, checked.reason), None) for call in checked.calls[:1]]
    evidence = (*(call.result_id for call in checked.calls), checked.text.event_id)
    return Draft(
        type=problem.type,
        about=problem.about,
        severity=problem.severity,
        confidence=problem.confidence,
        title=problem.title,
        explanation=problem.explanation,
        evidence=cite_events(evidence),
        first_bad_step=checked.text.event_id,
        chain=[*steps, said] if steps else [CausalStep(said.event_id, said.happened, None)],
        explained_calls=Orders(call.order for call in checked.calls),
        scope=Scope(episode.session_key, episode.agent_run_id),
        recommendation=problem.recommendation,
        verification="Run the same task again: what the agent reports agrees with what was recorded.",
    )


def _happened(call: EpisodeCall, reason: str) -> str:
    return reason if reason.startswith(call.name) else f"{call.name}: {reason}"


def _ends(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size // 2]}\n…\n{text[-size // 2 :]}"


def _unescaped(line: str) -> str:
    if "\\" not in line:
        return line
    try:
        return str(msgspec.json.decode(f'"{line}"'))
    except msgspec.DecodeError:
        return line
