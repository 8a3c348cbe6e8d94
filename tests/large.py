"""Runs that are large in one way: a causal graph of 300 nodes, and a folder of 2,000 runs."""

from __future__ import annotations

import random

from diagnosed import diagnosis, finding, store
from support import Runs

from critiqor.diagnosis.causal_graph import LEADS_TO, causal_graph
from critiqor.model import Diagnosis, Relation
from critiqor.model.diagnosis import SEVERITIES, CausalStep, ContextAnalysis, RequestSize

FINDINGS, STEPS = 30, 9
"""Findings of the large graph, and events in the causal chain of each: 300 nodes."""
HAPPENED = (
    "`pytest -q` failed: exit code 1: FAILED test_sum.py::test_sum - assert (1 + 1) == 3",
    "the agent calls exec again with the same arguments",
    "the provider answered 429: rate limit exceeded, retry after 20 seconds",
    "a tool result of 48,211 bytes fills the context",
    "the agent says that tests pass",
    "`grep -rn orders_4711 src/` found nothing",
)
RELATIONS: tuple[Relation, ...] = ("precedes", "caused", "retried", "ignored", "contradicted")


def large_diagnosis(run_id: str) -> Diagnosis:
    """A diagnosis whose causal graph has 300 nodes, built like every other, and 400 requests."""
    dice = random.Random(7)
    types = [*LEADS_TO, "cost_explosion", "timeout", "no_progress", "false_success_claim"]
    findings = []
    for number in range(FINDINGS):
        steps = [
            CausalStep(
                f"evt_{number * STEPS + step:04}", dice.choice(HAPPENED), dice.choice(RELATIONS) if step else None
            )
            for step in range(STEPS)
        ]
        findings.append(
            finding(
                f"{types[number % len(types)]}:cause_{number}",
                SEVERITIES[min(number // 8, len(SEVERITIES) - 1)],
                points=1,
                id=f"finding_{number + 1:03}",
                title=f"{types[number % len(types)].replace('_', ' ').capitalize()} in agent run {number // 4 + 1}",
                causal_chain=steps,
                # Findings that share an event are related.
                evidence=[step.event_id for step in steps[-2:]] + [f"evt_{number // 4 * 4 * STEPS:04}"],
                agent_run_id=f"run-{number // 4}",
            )
        )
    concluded = diagnosis(run_id, *findings, trust=12, cost_usd=4.2)
    concluded.causal_graph = causal_graph(findings)
    concluded.context_analysis = _context(dice)
    return concluded


def _context(dice: random.Random) -> ContextAnalysis:
    sizes, tokens = [], 9_000
    for number in range(400):
        tokens = tokens + dice.randrange(200, 2_400) if tokens < 205_000 else 31_000
        sizes.append(
            RequestSize(
                event_id=f"evt_{number:04}",
                input_tokens=tokens,
                budget_tokens=200_000,
                saturation=tokens / 200_000,
                request_bytes=tokens * 4,
            )
        )
    return ContextAnalysis(requests=sizes, requests_total=400, peak_saturation=1.03, over_budget=4, compactions=2)


def many_runs(runs: Runs, count: int = 2000) -> None:
    """Runs of two months, more of them on some days than on others."""
    dice = random.Random(11)
    day = 20_740.3
    for number in range(1, count + 1):
        day += dice.expovariate(1) * 60 / count * (0.3 if number % 400 < 200 else 1.7)
        trust = None if number % 97 == 0 else max(0, min(100, round(dice.gauss(88 - 30 * (number % 700 > 550), 9))))
        one = diagnosis(
            f"run_{number:04}",
            trust=trust,
            cost_usd=dice.lognormvariate(-3, 0.8),
            wall_ms=round(dice.lognormvariate(11, 0.6)),
        )
        store(runs, one, day=day)
