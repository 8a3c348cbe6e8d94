"""What imported messages say they used counts as what the run cost."""

from __future__ import annotations

from story import Story


def test_usage_that_a_message_tells_is_a_model_call() -> None:
    usage = {"input": 100, "output": 7}
    story = Story().user("hello").event("message_end", payload={"role": "assistant", "text": "Hello.", "usage": usage})
    cost = story.finishes().diagnosis().cost_analysis
    assert (cost.model_calls, cost.input_tokens, cost.output_tokens, cost.cost_usd) == (1, 100, 7, None)


def test_message_without_usage_is_none() -> None:
    assert Story().user("hello").says("Hello.").finishes().diagnosis().cost_analysis.model_calls == 0
