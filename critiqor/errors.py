"""Errors: each one names its cause, its exit code and the next command to type.

Exception
└── CritiqorError                 exit 1    any error that a user can act upon
    ├── UsageError                exit 2    an invalid command line, option or argument (also a ValueError)
    ├── ActiveSessionError        exit 1    another run holds the active slot of the runs folder
    ├── NoActiveSessionError      exit 1    there is no session to finalize, abort or verify
    ├── UnknownRunError           exit 1    the runs folder has no run with this name
    ├── BrokenRecordError         exit 1    a run record or its evidence cannot be read
    ├── RegistrationError         exit 1    a detector, exporter or importer does not have the right interface
    └── OpenClawNotFoundError     exit 127  OpenClaw was not found under the given command
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the `critiqor` command."""

    OK = 0
    ERROR = 1
    USAGE = 2
    GATE_FAILED = 3
    TIMED_OUT = 124
    NOT_FOUND = 127
    INTERRUPTED = 130


class CritiqorError(Exception):
    """An error that a user can understand and act upon."""

    exit_code = ExitCode.ERROR

    def __init__(self, message: str, *, fix: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        """The cause, in one sentence."""
        self.fix = fix
        """The next command to type, or what to change."""

    def __str__(self) -> str:
        return f"{self.message}\n  → {self.fix}" if self.fix else self.message


class UsageError(CritiqorError, ValueError):
    """The command line, an option or an argument is invalid."""

    exit_code = ExitCode.USAGE


class ActiveSessionError(CritiqorError):
    """Another run holds the active slot of this runs folder."""


class NoActiveSessionError(CritiqorError):
    """There is no session to finalize, abort or verify."""


class UnknownRunError(CritiqorError):
    """The runs folder has no run with this name."""


class BrokenRecordError(CritiqorError):
    """A run record or its evidence cannot be read."""


class RegistrationError(CritiqorError):
    """A detector, exporter or importer cannot be registered. The message says what is missing."""


class OpenClawNotFoundError(CritiqorError):
    """OpenClaw was not found under the given command."""

    exit_code = ExitCode.NOT_FOUND


def format_error(error: BaseException) -> str:
    """Return an exception as one line of text."""
    return error.message if isinstance(error, CritiqorError) else f"{type(error).__name__}: {error}"
