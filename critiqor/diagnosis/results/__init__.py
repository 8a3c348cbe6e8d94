"""What the result of a tool call means: success, failure, not decided yet or unknown. The rules are data."""

from critiqor.diagnosis.results.meaning import Meaning, ResultState
from critiqor.diagnosis.results.results import meaning_of

Verdict = ResultState

__all__ = ["Meaning", "ResultState", "Verdict", "meaning_of"]
