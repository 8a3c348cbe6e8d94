"""`critiqor search WORDS...`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from critiqor.cli.options import fleet_option, json_option, runs_dir_option
from critiqor.cli.output import answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from critiqor.model import Event
    from critiqor.search.index import RunHits

SHOWN = 20
"""Maximum number of runs whose matches are shown."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One matching event."""

    event_id: str
    session_key: str | None
    event_type: str
    text: str
    """The text around the first match."""


class FoundRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that contains all words of a search."""

    run_id: str
    matches: int
    events: list[Hit]
    """The first few matches."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("words", nargs=-1, required=True)
@runs_dir_option
@fleet_option
@json_option
def search(words: tuple[str, ...], runs_dir: str, fleet: bool, as_json: bool) -> None:
    """Search the messages, commands and results of all sealed runs for events that contain all WORDS.

    A word also matches longer words that start with it. New runs are indexed first, in `.search.sqlite` in the runs
    folder, which can be deleted at any time. With --fleet, the first requests, last answers, claims and titles of
    findings of the runs of all hosts are searched.

    \b
    critiqor search invoice 4711
    critiqor search src/app.py
    """
    if fleet:
        from critiqor.cli.fleet.search import search_fleet

        runs = search_fleet(" ".join(words))
        answer("search", runs, _text(runs), as_json=as_json)
        return
    from critiqor.run.store import RunStore
    from critiqor.search.index import SearchIndex

    index = SearchIndex(RunStore(runs_dir))
    index.update()
    text = " ".join(words)
    found = [_found(each, text) for each in index.find(text)]
    answer("search", found, _text(found), as_json=as_json)


def _found(hits: RunHits, text: str) -> FoundRun:
    return FoundRun(run_id=hits.run_id, matches=hits.matches, events=[_hit(event, text) for event in hits.events])


def _hit(event: Event, text: str) -> Hit:
    from critiqor.search.terms import matching_excerpt

    return Hit(
        event_id=event.event_id,
        session_key=event.session_key,
        event_type=event.event_type,
        text=matching_excerpt(event, text),
    )


def _text(found: Sequence[FoundRun]) -> str:
    from critiqor.cli.hints import add_runs_dir
    from critiqor.cli.text_layout import page
    from critiqor.comparison.commands import show_command
    from critiqor.model.formatting import counted, format_session

    if not found:
        return "No run contains these words."
    lines = []
    for run in found[:SHOWN]:
        lines.append(f"{run.run_id}  {counted(run.matches, 'match', 'matches')}")
        for hit in run.events:
            lines.append(f"  {hit.event_id}  {format_session(hit.session_key)}  {hit.event_type}")
            lines.append(f"    {hit.text}")
    if len(found) > SHOWN:
        lines.append(f"and {len(found) - SHOWN} more runs: --json has them all")
    first = found[0].run_id
    following = add_runs_dir(show_command(first) if "/" in first else f"critiqor dashboard {first}")
    return page([*lines, f"Next: {following}"])
