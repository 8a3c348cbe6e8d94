"""What the monitor and the process of the live diagnosis send each other: one JSON document per line."""

from __future__ import annotations

import msgspec

from critiqor.live.announcements import Announcement
from critiqor.live.verdict import LiveLimit

CONCLUDE, SEND_REST = b"conclude\n", b"send the rest\n"
"""What the process is asked for at the end: the verdict of the complete recording, or only the rest of the spans."""


class StreamTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Where the spans of a run are sent while it is recorded."""

    url: str
    """Address of the collector."""
    content: bool = False
    """Whether arguments, outputs and messages are sent, too."""


class StreamReport(msgspec.Struct, kw_only=True):
    """What became of the spans of one run."""

    sent: int = 0
    """Spans that were accepted."""
    refused: int = 0
    """Spans that the collector does not want, and that are not sent again."""
    refusal: str | None = None
    """Why it refused them, the last time; null if it accepted all."""
    reason: str | None = None
    """Why the last attempt failed; null if it did not."""
    is_complete: bool = False
    """Whether no span waits."""

    def describe(self, run_id: str, url: str) -> str:
        """Return this message of the worker as a sentence without a full stop."""
        sent = f"{self.sent} spans of {run_id} were sent to {url}"
        refused = f", which refused {self.refused} others: {self.refusal}" if self.refused else ""
        if self.is_complete:
            return sent + refused
        export = f"critiqor export {run_id} --format otlp --endpoint {url}"
        reason = f": {self.reason}" if self.reason else ""
        return f"{sent}; the others wait for the next recording that is sent there, or for: {export}{reason}"


class WorkerTask(msgspec.Struct, frozen=True, kw_only=True):
    """What to diagnose."""

    runs_dir: str
    run_id: str
    limits: msgspec.Raw
    """The limits of the policy as JSON, or null. They are decoded in the process, so that the monitor, which has to
    start quickly, loads no detector."""
    contracts: msgspec.Raw
    """The contracts of the policy as a list in JSON."""
    stream: StreamTarget | None = None
    """Where its spans are sent; None for nowhere."""


class WorkerMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of these."""

    announcement: Announcement | None = None
    limit: LiveLimit | None = None
    """A limit that was exceeded; if it is to be stopped, the monitor does it."""
    stream: StreamReport | None = None
    """What became of the spans, at the end."""
    done: bool = False
    """Whether the verdict of the complete recording was written."""
