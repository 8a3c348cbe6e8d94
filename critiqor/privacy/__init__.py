"""What is left of a run for somebody who may know its structure and its figures, and nothing else. Pure.

Nothing is taken out: everything is made anew from what may stay, so that a field that is added later stays at home
until somebody lets it out here. Names stay where they are of a vocabulary that all runs share: one that a user, an
agent or a plugin has chosen can say whose run it is.
"""

from critiqor.privacy.diagnosis import anonymous_diagnosis
from critiqor.privacy.events import Aliases, anonymous_coverage, anonymous_event, anonymous_head, anonymous_run
from critiqor.privacy.trace import anonymous_parts, anonymous_profile
from critiqor.privacy.vocabulary import WITHHELD, anonymous_name

__all__ = [
    "WITHHELD",
    "Aliases",
    "anonymous_coverage",
    "anonymous_diagnosis",
    "anonymous_event",
    "anonymous_head",
    "anonymous_name",
    "anonymous_parts",
    "anonymous_profile",
    "anonymous_run",
]
