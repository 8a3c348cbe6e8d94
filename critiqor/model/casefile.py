"""The case file: one run among many, as questions about several runs need it."""

from __future__ import annotations

import msgspec

from critiqor.model.diagnosis import Diagnosis
from critiqor.model.record import Metadata


class CaseFile(msgspec.Struct, frozen=True, kw_only=True):
    """Whose run it is, when it was, and what was concluded from it; or why nothing was."""

    run_id: str
    created_at: str | None = None
    """UTC, ISO 8601; null where the record cannot be read."""
    metadata: Metadata | None = None
    """Null where the record cannot be read."""
    diagnosis: Diagnosis | None = None
    undiagnosed: str | None = None
    """Why there is no diagnosis."""
    fix: str | None = None
    """What to type to get one."""
