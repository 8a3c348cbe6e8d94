"""Notes on what could not be read in an imported file."""

from __future__ import annotations

MAX_PLACES = 5
"""Places named in a note; further ones are only counted."""
MAX_NOTE_LENGTH = 300


class ImportNotes:
    """Collects problems with an imported file: each kind once, counted, with the first few places."""

    def __init__(self) -> None:
        self._places: dict[str, list[str]] = {}
        self._counts: dict[str, int] = {}
        self.not_understood = 0
        """Number of entries of the file that were not understood."""

    def add(self, problem: str, place: str = "", *, times: int = 1, not_understood: bool = False) -> None:
        """Count a problem; its text ends where a count can follow, such as "lines that could not be read".

        `not_understood`: the content of each such entry is unknown, so that confidence in the diagnosis is lower.
        """
        self._counts[problem] = self._counts.get(problem, 0) + times
        self.not_understood += times if not_understood else 0
        places = self._places.setdefault(problem, [])
        if place and len(places) < MAX_PLACES and place not in places:
            places.append(place)

    def sentences(self) -> list[str]:
        """Return the notes on the imported file: one sentence per kind of problem."""
        return [self._sentence(problem, count) for problem, count in self._counts.items()]

    def _sentence(self, problem: str, count: int) -> str:
        places = self._places[problem]
        more = ", …" if places and count > len(places) else ""
        sentence = f"{problem}: {count}" + (f" ({', '.join(places)}{more})" if places else "")
        return sentence if len(sentence) <= MAX_NOTE_LENGTH else sentence[: MAX_NOTE_LENGTH - 1] + "…"
