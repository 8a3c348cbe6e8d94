"""`retry_storm`: request after request to a provider that does not answer."""

from __future__ import annotations

from itertools import groupby

from critiqor.diagnosis.detectors.provider_failure import cause_of
from critiqor.diagnosis.draft import Draft, cite
from critiqor.model import CausalStep
from critiqor.model.formatting import counted
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import ModelCall

TYPE = "retry_storm"
STORM = 5
"""Failed model calls in a row."""


def detect(run: AgentRun) -> list[Draft]:
    """The longest row of failed model calls of one agent run."""
    longest: list[ModelCall] = []
    for failed, calls in groupby(run.model_calls, key=lambda call: call.failed):
        row = [call for call in calls if cause_of(call) != "stopped"] if failed else []
        longest = max(longest, row, key=len)
    if len(longest) < STORM:
        return []
    cause = cause_of(longest[-1])
    fatal = longest[-1] is run.model_calls[-1]
    return [
        Draft(
            type=TYPE,
            about=(cause,),
            severity="medium",  # that none came through is told by `provider_failure`
            confidence=90,
            title=f"{counted(len(longest), 'model call')} failed in a row",
            explanation="Each was sent after the one before had failed"
            + (", and none came through." if fatal else "; the run went on in the end.")
            + " Retries that do not wait long enough keep a provider from recovering, and are often billed.",
            evidence=cite(call.event_id for call in longest),
            occurrences=len(longest),
            first_bad_step=longest[1].event_id,
            chain=[
                CausalStep(longest[0].event_id, f"failed: {cause}", None),
                CausalStep(longest[1].event_id, "sent again", "retried"),
                CausalStep(longest[-1].event_id, f"attempt number {len(longest)}", "retried"),
            ],
            wasted_calls=longest[1:],
            scope=run.scope,
            recommendation="Limit the number of retries, wait longer between them, and configure a second model "
            "to fall back to.",
            verification=f"Run the same task again: fewer than {STORM} failed calls in a row.",
        )
    ]
