"""The journal compared with what recorders and the monitor said about its records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from critiqor.model.evidence import WitnessFacts
from critiqor.storage.audit.closing_records import ClosingRecord
from critiqor.storage.audit.journal_audit import JournalAudit, lifecycle_digest
from critiqor.storage.audit.statement import RecorderStatement, Statement, digest_of, read_statement

LINES = [f'{{"number":{number}}}'.encode() for number in range(1, 6)]
WRITTEN = b"".join(map(digest_of, LINES))


def statement(**values: object) -> Statement:
    known = {"writer": "abc", "produced": 5, "digests": WRITTEN, "has_ended": True, **values}
    return Statement(recorders=[msgspec.convert(known, RecorderStatement)])


def compare(stated: Statement, lines: dict[int, bytes], writer: str = "abc") -> WitnessFacts:
    audit = JournalAudit(stated)
    for sequence, data in lines.items():
        audit.observe(writer, sequence, f"evt_{sequence}", data + b"\n")
    facts = audit.conclude(damaged=0)
    assert facts is not None
    return facts


WHOLE = dict(enumerate(LINES, 1))


def test_a_journal_as_it_was_written_is_intact() -> None:
    facts = compare(statement(), WHOLE)
    assert not facts.is_tampered
    assert (facts.produced, facts.lost) == (5, 0)


def test_a_changed_record_is_named() -> None:
    facts = compare(statement(), {**WHOLE, 3: b'{"number":0}'})
    assert (facts.changed, facts.examples) == (1, ["evt_3"])


@pytest.mark.parametrize("gone", [1, 3, 5])
def test_a_removed_record_is_counted_also_at_the_end(gone: int) -> None:
    facts = compare(statement(), {number: line for number, line in WHOLE.items() if number != gone})
    assert (facts.removed, facts.lost) == (1, 0)


def test_added_records_are_counted() -> None:
    assert compare(statement(), {**WHOLE, 6: b'{"number":6}'}).inserted == 1
    assert compare(statement(has_ended=False), {**WHOLE, 7: b'{"number":7}'}).inserted == 1


def test_the_end_of_a_recorder_that_was_killed_may_be_unreported() -> None:
    facts = compare(statement(has_ended=False), {**WHOLE, 6: b'{"number":6}', 7: b'{"number":7}'})
    assert (facts.unreported, facts.inserted, facts.is_tampered) == (2, 0, False)


def test_recorders_that_went_on_without_the_monitor_are_unreported() -> None:
    facts = compare(msgspec.structs.replace(statement(), is_open=True), WHOLE, writer="other")
    assert (facts.unreported, facts.unknown_recorders) == (5, 0)


@pytest.mark.parametrize(("damaged", "removed"), [(0, 3), (1, 2), (3, 0), (9, 0)])
def test_damage_explains_as_many_missing_records_as_fit_into_it(damaged: int, removed: int) -> None:
    audit = JournalAudit(statement())
    for sequence in (1, 5):
        audit.observe("abc", sequence, f"evt_{sequence}", WHOLE[sequence] + b"\n")
    facts = audit.conclude(damaged)
    assert facts is not None
    assert facts.removed == removed


def test_a_statement_whose_numbers_do_not_agree_is_not_used(tmp_path: Path) -> None:
    for wrong in (statement(produced=-1, digests=None), statement(produced=4), statement(lost=-1)):
        (tmp_path / "witness.json").write_bytes(msgspec.json.encode(wrong))
        assert read_statement(tmp_path / "witness.json") is None


def test_records_whose_reports_did_not_arrive_are_not_confirmed() -> None:
    facts = compare(statement(digests=WRITTEN[:8] + bytes(16) + WRITTEN[24:]), {**WHOLE, 3: b'{"number":0}'})
    assert (facts.unreported, facts.changed, facts.lost, facts.is_tampered) == (2, 0, 0, False)


def test_a_process_outside_of_the_tree_that_reports_is_unknown_also_if_it_writes_nothing() -> None:
    facts = compare(statement(is_of_tree=False, produced=0, digests=b"", irregular=3), {})
    assert (facts.unknown_recorders, facts.produced, facts.lost, facts.is_tampered) == (1, 0, 0, True)


def test_a_writer_that_did_not_report_is_unknown() -> None:
    assert compare(statement(), WHOLE, writer="other").unknown_recorders == 1


def test_a_process_outside_of_the_tree_is_unknown() -> None:
    assert compare(statement(is_of_tree=False), WHOLE).unknown_recorders == 1


def test_records_that_were_not_written_are_lost_and_not_removed() -> None:
    digests = WRITTEN[:24] + bytes(16)
    facts = compare(statement(lost=2, digests=digests), {number: WHOLE[number] for number in (1, 2, 3)})
    assert (facts.lost, facts.removed, facts.is_tampered) == (2, 0, False)


def test_the_record_that_a_killed_process_was_writing_is_lost() -> None:
    facts = compare(statement(has_ended=False), {number: WHOLE[number] for number in (1, 2, 3, 4)})
    assert (facts.lost, facts.removed) == (1, 0)


def test_without_digests_counts_are_compared() -> None:
    facts = compare(statement(digests=None, lost=1), {number: WHOLE[number] for number in (1, 2, 3)})
    assert (facts.lost, facts.removed) == (1, 1)


def test_what_was_written_after_the_end_of_the_evidence_is_not_missing() -> None:
    stated = msgspec.structs.replace(statement(has_ended=False), required={"abc": 3})
    facts = compare(stated, {number: WHOLE[number] for number in (1, 2, 3, 4)})
    assert (facts.lost, facts.removed, facts.produced) == (0, 0, 3)


def test_counts_of_a_recorder_without_a_monitor() -> None:
    closings = [ClosingRecord(writer="abc", pid=1, produced=78, lost=57), ClosingRecord(writer="def", pid=2)]
    audit = JournalAudit(None, closings)
    assert (audit.produced(), audit.not_closed(), audit.conclude(0)) == ({"abc": 78}, 1, None)


def test_lifecycle_events_of_the_monitor_are_compared() -> None:
    start = {"event_id": "evt_1", "event_type": "process_start", "payload": {"pid": 1}}
    end = {"event_id": "evt_2", "event_type": "process_end", "payload": {"exit_code": 1}}
    stated = Statement(lifecycle={str(one["event_id"]): lifecycle_digest(one) for one in (start, end)})
    transition = {"event_id": "evt_3", "event_type": "state_transition"}
    cases: list[tuple[list[dict[str, Any]], int]] = [
        ([start, transition, end], 0),
        ([start, {**end, "payload": {"exit_code": 0}}], 1),
        ([start], 1),
        ([start, end, {**end, "event_id": "evt_9"}], 1),
    ]
    for events, changed in cases:
        audit = JournalAudit(stated)
        audit.observe_lifecycle(events)
        facts = audit.conclude(0)
        assert facts is not None
        assert facts.lifecycle_changed == changed
