"""Redaction: replace secrets before evidence is sealed, with the same rules as the recorder plugin.

The rules are data (`clawhub/critiqor-openclaw/redaction.json`), and a user can add to them. A recorder with the same
rules has already redacted what it wrote. This package redacts what reaches the evidence in another way, such as a
launch command, and what a recorder with other rules did not recognize.
"""

from __future__ import annotations

from critiqor.storage.redaction.gates import may_hold_secret
from critiqor.storage.redaction.redactor import Redactor, new_redaction_key
from critiqor.storage.redaction.rules import RULES_PATH, is_secret_field, rules_digest

__all__ = ["RULES_PATH", "Redactor", "is_secret_field", "may_hold_secret", "new_redaction_key", "rules_digest"]
