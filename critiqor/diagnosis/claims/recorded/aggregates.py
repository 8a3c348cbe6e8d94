"""Totals and averages that are named as such, and differ from that of the only numbers that can be meant."""

from __future__ import annotations

import re

from critiqor.diagnosis.claims.arithmetic import tolerance
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.recorded.facts import Fact
from critiqor.diagnosis.claims.recorded.units import is_comparable, is_money, unit_at
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.claims.values import Value

MAX_DISTANCE = 60
"""Maximum number of characters between the word for a total and its number."""
MAX_RATIO = 3.0
_AVERAGE = re.compile(
    r"\baverag\w*|\bmean\b|durchschnitt\w*|\bim schnitt\b|\bmittelwert\w*|\bpromedio\w*|\bmedia\b|\bmoyenn\w*|\bmédia\b"
    r"|\bgemiddeld\w*|\bśredni\w*|\bсредн\w*|\bortalama\w*|متوسط|平均|평균"
)
_TOTAL = re.compile(
    r"\btotal\w*|\bsum\b|\bsums\b|\baltogether\b|\bin all\b|\badds? up\b|\binsgesamt\b|\bgesamt\w*|\bzusammen\b"
    r"|\bsumme\b|\bsuma\b|\bsomme\b|\bsomma\b|\bcomplessiv\w*|\btotaal\b|\bopgeteld\b|\brazem\b|\błącznie\b|\bитого\b"
    r"|\bвсего\b|\bсумм\w*|\btoplam\w*|مجموع|إجمالي|合计|总计|總計|总共|一共|合計|합계|총"
)


def wrong_aggregate(evidence: Evidence, speech: Speech, stance: Stance, value: Value) -> tuple[str, Fact] | None:
    """Return what the recorded numbers give, if a total or an average that a statement names differs from it."""
    if not evidence.is_complete or not evidence.is_readable or stance.is_plan or stance.is_uncertain:
        return None
    start = max(0, value.start - stance.statement.start - MAX_DISTANCE)
    near = stance.lowered[start : value.end - stance.statement.start + MAX_DISTANCE // 2]
    is_average, is_total = _AVERAGE.search(near) is not None, _TOTAL.search(near) is not None
    if is_average == is_total or evidence.supports(value):
        return None
    unit = unit_at(speech.text, value.start, value.end)
    series: dict[str, list[Fact]] = {}
    for fact in evidence.facts:
        if fact.is_structured and is_comparable(unit, fact.unit):
            series.setdefault(fact.series, []).append(fact)
    lists = [facts for facts in series.values() if len(facts) > 1]
    if len(lists) != 1 or (is_total and not is_money(unit.measure) and unit.measure != lists[0][0].unit.measure):
        return None
    numbers = [fact.number for fact in lists[0]]
    expected = sum(numbers) / (len(numbers) if is_average else 1)
    number, decimals = value.readings[0]
    if not expected or not 1 / MAX_RATIO < number / expected < MAX_RATIO or number in numbers:
        return None
    if abs(number - expected) <= tolerance(number, decimals):
        return None
    what = "an average of" if is_average else "a sum of"
    return f"values with {what} {expected:.{max(decimals, 2) if expected % 1 else 0}f}", lists[0][-1]
