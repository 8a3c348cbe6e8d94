"""Search in the texts of the runs of all hosts."""

from __future__ import annotations

from critiqor.cli.fleet.opening import opened_index
from critiqor.cli.verbs.search import FoundRun, Hit
from critiqor.fleet.index.rows import IndexedText
from critiqor.fleet.views.run_names import run_names
from critiqor.search.terms import excerpt_around


class FoundFleetRun(FoundRun, frozen=True, kw_only=True):
    """A run of the fleet, named `HOST/RUN`, with texts that contain all words of a search."""

    host: str


def search_fleet(words: str) -> list[FoundFleetRun]:
    """Return the newest runs of the index that contain all words."""
    with opened_index() as index:
        hits = index.search(words)
    names = run_names([each.run for each in hits])
    return [
        FoundFleetRun(
            run_id=names[each.run.id],
            host=each.run.host,
            matches=each.matches,
            events=[_hit(text, words) for text in each.texts],
        )
        for each in hits
    ]


def _hit(text: IndexedText, words: str) -> Hit:
    return Hit(
        event_id=text.source,
        session_key=text.session_key,
        event_type=text.kind,
        text=excerpt_around(text.text, words),
    )
