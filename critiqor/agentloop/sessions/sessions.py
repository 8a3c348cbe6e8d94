"""Sessions: resolve which conversation a message belongs to, open, update and reset sessions.

A session key names the conversation (`agent:main:main`), a session id its current transcript. For each agent,
`sessions.json` maps keys to ids in OpenClaw's format. Concurrent changes share one write, and changes of other
processes are kept.

Known limitation: the file is replaced atomically but not synced; a power failure can lose the changes of the last
seconds. The transcripts do not depend on it.
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
_MAX_KEY_CHARS = 512


class Session(NamedTuple):
    """A session as seen by one run."""

    key: str
    agent_id: str
    entry: SessionEntry
    transcript: Path
    is_new: bool

    @property
    def id(self) -> str:
        """The session id, which names the transcript."""
        return self.entry.session_id


class SessionAddress(NamedTuple):
    """Agent, key and optional id of a session."""

    agent_id: str
    key: str
    session_id: str | None
    """Set if a specific transcript was requested."""


class Sessions:
    """All sessions of all agents under one state folder."""

    def __init__(self, state_folder: Path) -> None:
        self._folder = state_folder / "agents"
        self._stores: dict[str, SessionStore] = {}

    def folder(self, agent_id: str) -> Path:
        """Return the session folder of an agent."""
        return self._folder / agent_id / "sessions"

    async def open(self, address: SessionAddress) -> Session:
        """Open a session, and create it if it does not exist. A new session is on disk when this returns."""
        store = self._store(address.agent_id)
        entry = store.get(address.key)
        wanted = address.session_id
        is_new = entry is None or (wanted is not None and entry.session_id != wanted)
        now = now_ms()
        if entry is None or is_new:
            entry = SessionEntry(session_id=wanted or str(uuid4()), session_started_at=now)
        entry = msgspec.structs.replace(entry, updated_at=now, last_interaction_at=now)
        # While a new session is being written, all callers wait for that write, so they continue in order.
        if is_new or store.is_unwritten(address.key):
            await store.put(address.key, entry)
        else:
            store.put_later(address.key, entry)
        return self._session(address.agent_id, address.key, entry, is_new=is_new)

    def current(self, session: Session, *, pinned: bool = False) -> Session:
        """Return the current state of a session, which may have changed while a run was queued.

        A `pinned` session keeps its transcript, even if its key now belongs to another one.
        """
        entry = self._store(session.agent_id).get(session.key)
        if entry is None or (pinned and entry.session_id != session.id):
            return session
        is_new = session.is_new and entry.session_id == session.id
        return self._session(session.agent_id, session.key, entry, is_new=is_new)

    def find(self, agent_id: str, key: str) -> Session | None:
        """Return the session with a key, if it exists."""
        entry = self._store(agent_id).get(key)
        return None if entry is None else self._session(agent_id, key, entry, is_new=False)

    def resolve_address(
        self, agent_id: str | None, key: str | None, session_id: str | None, default: str
    ) -> SessionAddress:
        """Resolve the agent, key and session id that a caller gave. Raises `UsageError` if they conflict."""
        named = _parse_agent(key)
        if agent_id is not None and named is not None and named != agent_id:
            raise UsageError(
                f"the session key {key} does not belong to agent {agent_id}",
                fix="give only the agent or only the session key",
            )
        agent = _check_agent(agent_id or named or default)
        if session_id is not None and not _SESSION_ID.fullmatch(session_id):
            raise UsageError(f"{session_id!r} is not a valid session id", fix="use letters, digits, dots and dashes")
        if key is None and session_id is not None:
            known = self._store(agent).key_of(session_id)
            return SessionAddress(agent, known or f"agent:{agent}:explicit:{session_id}", session_id)
        return SessionAddress(agent, key if key and named else f"agent:{agent}:{_check_key(key or MAIN)}", session_id)

    async def reset(self, session: Session) -> Session:
        """Start a new transcript under the same key. The old transcript is kept."""
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

    def update(self, session: Session, **changes: object) -> None:
        """Change fields of a session's entry, unless the session was reset. Written after a short delay."""
        store = self._store(session.agent_id)
        entry = store.get(session.key)
        if entry is not None and entry.session_id == session.id:
            store.put_later(session.key, msgspec.structs.replace(entry, updated_at=now_ms(), **changes))

    async def close(self) -> None:
        """Write pending changes."""
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
    """Whether a key is that of an agent's main session."""
    return key.split(":")[2:] == [MAIN]


def is_subagent(key: str) -> bool:
    """Whether a key is that of a subagent session."""
    return key.split(":")[2:3] == ["subagent"]


def _parse_agent(key: str | None) -> str | None:
    if key is None or not key.startswith("agent:"):
        return None
    parts = _check_key(key).split(":", 2)
    if len(parts) < 3 or not parts[2]:
        raise UsageError(f"{key!r} is not a valid session key", fix="write agent:AGENT:NAME, or only NAME")
    return _check_agent(parts[1])


def _check_agent(agent_id: str) -> str:
    if not _AGENT_ID.fullmatch(agent_id):
        raise UsageError(
            f"{agent_id!r} is not a valid agent id", fix="use lowercase letters, digits, dashes and underscores"
        )
    return agent_id


def _check_key(key: str) -> str:
    if not key.strip() or len(key) > _MAX_KEY_CHARS or not key.isprintable():
        raise UsageError(f"{key[:40]!r} is not a valid session key", fix="write agent:AGENT:NAME, or only NAME")
    return key.strip()
