"""A text of an agent with its claims: which parts of it are claims, and what the recording says about them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from critiqor.model import Claim, ClaimStatus

STATUSES: tuple[ClaimStatus, ...] = ("contradicted", "unsupported", "unverifiable", "supported")
"""From worst to best."""


_CODE = re.compile(r"(?<!`)`([^`\n]{1,300})`(?!`)")


class Fragment(NamedTuple):
    """A part of a piece of a text, as it is to be shown."""

    text: str
    is_code: bool = False
    """Whether it was between backticks, which are left out."""


class Piece(NamedTuple):
    """A part of a text."""

    text: str
    claims: tuple[Claim, ...] = ()
    """The claims in it, the worst first; empty if it contains none."""
    fragments: tuple[Fragment, ...] = ()
    """The text with its code, where an output tells code from other words."""

    @property
    def status(self) -> ClaimStatus | None:
        """The worst status of its claims; None without claims."""
        return self.claims[0].status if self.claims else None

    @property
    def evidence(self) -> str | None:
        """The event that decides its worst claim; None if there is none."""
        return next((event_id for claim in self.claims[:1] for event_id in claim.evidence), None)


def worst_first(claims: Iterable[Claim]) -> list[Claim]:
    """Return the claims that were checked in a text in the order of their statuses, the worst first."""
    return sorted(claims, key=lambda claim: STATUSES.index(claim.status))


def checked_text(text: str, claims: Sequence[Claim]) -> list[Piece]:
    """Split a text into claims and what is between them. Claims that overlap are one piece."""
    pieces: list[Piece] = []
    end = 0
    for start, until, together in _joined(claims, len(text)):
        if start > end:
            pieces.append(Piece(text[end:start]))
        pieces.append(Piece(text[start:until], tuple(worst_first(together))))
        end = until
    return [*pieces, Piece(text[end:])] if end < len(text) else pieces


def with_code(pieces: Sequence[Piece]) -> list[Piece]:
    """Return pieces of a text with their fragments; what is between backticks is code, also across pieces."""
    text = "".join(piece.text for piece in pieces)
    cuts = [0, *(place for match in _CODE.finditer(text) for place in (match.start(), match.end())), len(text)]
    shown, start = [], 0
    for piece in pieces:
        end = start + len(piece.text)
        fragments = []
        for number in range(bisect_right(cuts, start) - 1, len(cuts) - 1):
            if cuts[number] >= end:
                break
            is_code = number % 2 == 1
            # The backticks are the first and the last character of code.
            first, last = cuts[number] + is_code, cuts[number + 1] - is_code
            part = text[max(first, start) : min(last, end)]
            fragments += [Fragment(part, is_code)] if part else []
        shown.append(piece._replace(fragments=tuple(fragments)))
        start = end
    return shown


def _joined(claims: Sequence[Claim], length: int) -> list[tuple[int, int, list[Claim]]]:
    """Return the places of claims within a text of this length, in order; those that overlap are joined."""
    joined: list[tuple[int, int, list[Claim]]] = []
    for claim in sorted(claims, key=lambda claim: (claim.start, claim.end)):
        start, end = max(0, claim.start), min(claim.end, length)
        if start >= end:
            continue  # the text was cut before it
        if joined and start < joined[-1][1]:
            first, until, together = joined[-1]
            joined[-1] = (first, max(until, end), [*together, claim])
        else:
            joined.append((start, end, [claim]))
    return joined


def numbered_claims(text: str, claims: Sequence[Claim]) -> Iterator[tuple[int, Claim]]:
    """Yield the claims about a text with their numbers, in the order of the text."""
    pieces = checked_text(text, claims)
    return ((number, claim) for number, claim in enumerate((one for piece in pieces for one in piece.claims), 1))
