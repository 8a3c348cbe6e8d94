"""One base error. Every error says what happened, carries the exit code, and names the next command to type.

CritiqorError                 1  something went wrong
├── UsageError                2  the command line or an argument is not right
├── ActiveSessionError        1  another run holds the active slot
├── NoActiveSessionError      1  there is nothing to finalize or abort
├── UnknownRunError           1  no run of that name in the runs folder
├── BrokenRecordError         1  a run record cannot be read
└── OpenClawNotFoundError   127  there is no OpenClaw to launch
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the `critiqor` command returns to the shell."""

    OK = 0
    ERROR = 1
    USAGE = 2
    GATE_FAILED = 3
    TIMED_OUT = 124
    NOT_FOUND = 127
    INTERRUPTED = 130


class CritiqorError(Exception):
    """Something a user can understand and act upon."""

    exit_code = ExitCode.ERROR

    def __init__(self, message: str, *, fix: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        """What happened, in one sentence."""
        self.fix = fix
        """The next command to type, or what to change."""

    def __str__(self) -> str:
        return f"{self.message}\n  → {self.fix}" if self.fix else self.message


class UsageError(CritiqorError, ValueError):
    """The command line, an option or an argument is not right."""

    exit_code = ExitCode.USAGE


class ActiveSessionError(CritiqorError):
    """Another run holds the active slot of this runs folder."""


class NoActiveSessionError(CritiqorError):
    """There is no session to finalize or abort."""


class UnknownRunError(CritiqorError):
    """The runs folder holds no run of that name."""


class BrokenRecordError(CritiqorError):
    """A run record or its evidence cannot be read."""


class OpenClawNotFoundError(CritiqorError):
    """There is no OpenClaw to launch under the given command."""

    exit_code = ExitCode.NOT_FOUND
