"""Links that give others access to one run. Only digests of their tokens are stored, and each can be revoked."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import msgspec

from critiqor.errors import BrokenRecordError
from critiqor.model import iso_from_ms, now_ms
from critiqor.run.store import Run
from critiqor.run.visibility import RunVisibility, change_visibility
from critiqor.storage import SessionPaths, exclusive, open_regular_file, write_json

_MAX_BYTES = 1 << 24
"""Maximum size of the file: tens of thousands of links."""


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A link to a run."""

    id: str
    """Identifies the link; gives no access."""
    run_id: str
    digest: str
    """SHA-256 of the token, in hexadecimal."""
    created_at: str
    revoked_at: str | None = None


class Links:
    """The links of a runs folder, stored in `.links.json`."""

    def __init__(self, paths: SessionPaths) -> None:
        self._paths = paths

    @property
    def _file(self) -> Path:
        return self._paths.runs_dir / ".links.json"

    def of_run(self, run_id: str) -> list[Link]:
        """Return the links to a run, newest first."""
        return [link for link in reversed(self._read()) if link.run_id == run_id]

    def run_of(self, token: str) -> str | None:
        """Return the run of a token; None if the token is unknown or its link is revoked."""
        digest = _digest(token)
        found = (link.run_id for link in self._read() if link.digest == digest and link.revoked_at is None)
        return next(found, None)

    def make(self, run_id: str) -> str:
        """Create a link to a run; return its token, which is stored nowhere."""
        token = secrets.token_urlsafe(32)
        link = Link(id=secrets.token_hex(4), run_id=run_id, digest=_digest(token), created_at=iso_from_ms(now_ms()))
        with exclusive(self._paths.lock_path):
            write_json(self._file, [*self._read(), link])
        return token

    def revoke(self, run_id: str, link_id: str) -> None:
        """Revoke a link."""
        self._revoke(lambda link: (link.run_id, link.id) == (run_id, link_id))

    def revoke_all(self, run_id: str) -> None:
        """Revoke every link to a run."""
        self._revoke(lambda link: link.run_id == run_id)

    def _revoke(self, matches: Callable[[Link], bool]) -> None:
        now = iso_from_ms(now_ms())
        with exclusive(self._paths.lock_path):
            links = self._read()
            if any(matches(link) and link.revoked_at is None for link in links):
                revoked = [
                    msgspec.structs.replace(link, revoked_at=link.revoked_at or now) if matches(link) else link
                    for link in links
                ]
                write_json(self._file, revoked)

    def _read(self) -> list[Link]:
        try:
            return msgspec.json.decode(_read(self._file), type=list[Link])
        except FileNotFoundError:
            return []
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            message = f"the links of this runs folder cannot be read: {error}"
            raise BrokenRecordError(message, fix=f"remove {self._file}, which revokes all links") from error


def change_run_visibility(run: Run, to: str) -> RunVisibility:
    """Change who may see a run, and revoke its links if it becomes private; sharing it again restores none of them."""
    result = change_visibility(run, to)
    if result.visibility == "private":
        Links(run.paths).revoke_all(run.id)
    return result


def _read(file: Path) -> bytes:
    """Read the links. Symbolic links are not followed: they could name any file."""
    with open_regular_file(file, follow_links=False) as opened:
        content = opened.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise OSError("it is too large")
    return content


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def path_segment(text: str) -> str:
    """Quote a text as one segment of the path of an address."""
    return quote(text, safe="")
