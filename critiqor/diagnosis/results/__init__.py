"""What the result of a tool call means: success, failure, not decided yet or unknown. The rules are data."""

from critiqor.diagnosis.results.meaning import meaning_of
from critiqor.diagnosis.results.meaning_struct import Meaning, ResultState

Verdict = ResultState

__all__ = ["Meaning", "ResultState", "Verdict", "meaning_of"]
