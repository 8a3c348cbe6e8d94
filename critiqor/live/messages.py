"""What the monitor and the process of the live diagnosis send each other: one JSON document per line."""

from __future__ import annotations

import msgspec

from critiqor.live.announcements import Announcement
from critiqor.live.verdict import LiveLimit


class WorkerTask(msgspec.Struct, frozen=True, kw_only=True):
    """What to diagnose."""

    runs_dir: str
    run_id: str
    limits: msgspec.Raw
    """The limits of the policy as JSON, or null. They are decoded in the process, so that the monitor, which has to
    start quickly, loads no detector."""
    contracts: msgspec.Raw
    """The contracts of the policy as a list in JSON."""


class WorkerMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of these."""

    announcement: Announcement | None = None
    limit: LiveLimit | None = None
    """A limit that was exceeded; if it is to be stopped, the monitor does it."""
    done: bool = False
    """Whether the verdict of the complete recording was written."""
