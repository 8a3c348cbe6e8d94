"""Errors of the store and the index of many machines.

CritiqorError
└── FleetError                    exit 1    the store or the index refuses a request, or holds something unusable
    └── FleetUnavailableError     exit 1    it cannot be reached now; what was to be sent waits, and is sent later
"""

from __future__ import annotations

from critiqor.errors import CritiqorError

INSTALL = 'pip install ".[fleet]"   in a checkout of Critiqor'


class FleetError(CritiqorError):
    """A store or an index refuses a request, or holds something that cannot be used."""


class FleetUnavailableError(FleetError):
    """A store or an index cannot be reached now. Trying again later may succeed."""


def missing_extra(error: ImportError) -> FleetError:
    """Return the error for a package that comes with the extra `fleet` and is not installed."""
    message = f"this needs the extra `fleet`, which is not installed ({error.name or error} is missing)"
    return FleetError(message, fix=INSTALL)
