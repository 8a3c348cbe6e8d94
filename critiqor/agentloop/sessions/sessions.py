"""Sessions: which conversation a message belongs to, and what is remembered of it beside its transcript.

A session key names the conversation (`agent:main:main`), a session id the transcript that it goes on in. For each agent
`sessions.json` maps one to the other, in OpenClaw's format. All changes that come at the same time are written at once,
and what another process has changed meanwhile is kept.

Accepted: the file is replaced whole but not forced to the disk; a power cut can lose what changed in the last seconds.
The transcripts do not depend on it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec

from critiqor.agentloop.sessions.session_store import SessionEntry, SessionStore
from critiqor.errors import UsageError
from critiqor.model import now_ms

MAIN = "main"
_AGENT_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_LONGEST_KEY = 512


class Session(NamedTuple):
    """A session as one run finds it."""

    key: str
    agent_id: str
    entry: SessionEntry
    transcript: Path
    is_new: bool

    @property
    def id(self) -> str:
        """Names the transcript."""
        return self.entry.session_id


class SessionAddress(NamedTuple):
    """Which session is meant."""

    agent_id: str
    key: str
    session_id: str | None
    """Where a certain transcript was asked for."""


class Sessions:
    """All sessions of all agents under one state folder."""

    def __init__(self, state_folder: Path) -> None:
        self._folder = state_folder / "agents"
        self._stores: dict[str, SessionStore] = {}

    def folder(self, agent_id: str) -> Path:
        """Where the sessions of an agent are."""
        return self._folder / agent_id / "sessions"

    async def open(self, address: SessionAddress) -> Session:
        """The session that is meant, begun if there is none; that there is one is on disk when this returns."""
        store = self._store(address.agent_id)
        entry = store.get(address.key)
        wanted = address.session_id
        is_new = entry is None or (wanted is not None and entry.session_id != wanted)
        now = now_ms()
        if entry is None or is_new:
            entry = SessionEntry(session_id=wanted or str(uuid4()), session_started_at=now)
        entry = msgspec.structs.replace(entry, updated_at=now, last_interaction_at=now)
        # A session that is about to be written for the first time is waited for by everybody, in order.
        if is_new or store.is_unwritten(address.key):
            await store.put(address.key, entry)
        else:
            store.put_later(address.key, entry)
        return self._session(address.agent_id, address.key, entry, is_new=is_new)

    def current(self, session: Session, *, pinned: bool = False) -> Session:
        """A session as it is now: a run may have waited, and the ones before it have changed what is remembered.

        One that is `pinned` stays with its transcript, whatever its key leads to by now.
        """
        entry = self._store(session.agent_id).get(session.key)
        if entry is None or (pinned and entry.session_id != session.id):
            return session
        is_new = session.is_new and entry.session_id == session.id
        return self._session(session.agent_id, session.key, entry, is_new=is_new)

    def find(self, agent_id: str, key: str) -> Session | None:
        """The session of that key, if there is one."""
        entry = self._store(agent_id).get(key)
        return None if entry is None else self._session(agent_id, key, entry, is_new=False)

    def address(self, agent_id: str | None, key: str | None, session_id: str | None, default: str) -> SessionAddress:
        """Find out which session a caller means by what it gave of agent, key and id."""
        named = _agent_in(key)
        if agent_id is not None and named is not None and named != agent_id:
            raise UsageError(f"{key} is not a session of agent {agent_id}", fix="leave out one of the two")
        agent = _checked_agent(agent_id or named or default)
        if session_id is not None and not _SESSION_ID.fullmatch(session_id):
            raise UsageError(f"{session_id!r} is not a session id", fix="use letters, digits, dots and dashes")
        if key is None and session_id is not None:
            known = self._store(agent).key_of(session_id)
            return SessionAddress(agent, known or f"agent:{agent}:explicit:{session_id}", session_id)
        return SessionAddress(agent, key if key and named else f"agent:{agent}:{_checked_key(key or MAIN)}", session_id)

    async def reset(self, session: Session) -> Session:
        """Begin a new transcript under the same key; the old one stays where it is."""
        entry = SessionEntry(
            session_id=str(uuid4()),
            session_started_at=now_ms(),
            updated_at=now_ms(),
            last_interaction_at=now_ms(),
            thinking_level=session.entry.thinking_level,
            verbose_level=session.entry.verbose_level,
        )
        await self._store(session.agent_id).put(session.key, entry)
        return self._session(session.agent_id, session.key, entry, is_new=True)

    def note(self, session: Session, **changes: object) -> None:
        """Change what is remembered of a session; written in a moment, or with the next message."""
        store = self._store(session.agent_id)
        entry = store.get(session.key)
        if entry is not None and entry.session_id == session.id:
            store.put_later(session.key, msgspec.structs.replace(entry, updated_at=now_ms(), **changes))

    async def close(self) -> None:
        """Write what was changed last."""
        for store in self._stores.values():
            await store.flush()

    def _store(self, agent_id: str) -> SessionStore:
        store = self._stores.get(agent_id)
        if store is None:
            store = self._stores[agent_id] = SessionStore(self.folder(agent_id) / "sessions.json")
        return store

    def _session(self, agent_id: str, key: str, entry: SessionEntry, *, is_new: bool) -> Session:
        return Session(key, agent_id, entry, self.folder(agent_id) / f"{entry.session_id}.jsonl", is_new)


def is_main(key: str) -> bool:
    """Whether a session is the main one of its agent."""
    return key.split(":")[2:] == [MAIN]


def is_subagent(key: str) -> bool:
    """Whether a session is the child of another one."""
    return key.split(":")[2:3] == ["subagent"]


def _agent_in(key: str | None) -> str | None:
    if key is None or not key.startswith("agent:"):
        return None
    parts = _checked_key(key).split(":", 2)
    if len(parts) < 3 or not parts[2]:
        raise UsageError(f"{key!r} is not a session key", fix="write agent:AGENT:NAME, or only NAME")
    return _checked_agent(parts[1])


def _checked_agent(agent_id: str) -> str:
    if not _AGENT_ID.fullmatch(agent_id):
        raise UsageError(f"{agent_id!r} is not an agent id", fix="use small letters, digits, dashes and underscores")
    return agent_id


def _checked_key(key: str) -> str:
    if not key.strip() or len(key) > _LONGEST_KEY or not key.isprintable():
        raise UsageError(f"{key[:40]!r} is not a session key", fix="write agent:AGENT:NAME, or only NAME")
    return key.strip()
