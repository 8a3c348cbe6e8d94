"""Whether the evidence of a run is still what was sealed: only then is anything proven that was concluded from it."""

from __future__ import annotations

from typing import Literal

import msgspec

ProofState = Literal["intact", "changed", "missing", "not sealed", "other"]


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the evidence since it was sealed."""

    state: ProofState
    """`other` where the evidence is intact, and the diagnosis was made from other evidence or is gone."""
    told: str
    """The same in one sentence, without a full stop."""

    @property
    def is_intact(self) -> bool:
        """Whether what was concluded can be proven."""
        return self.state == "intact"
