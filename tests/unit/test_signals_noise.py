"""Outputs that differ only in what changes by itself are the same answer."""

from __future__ import annotations

import pytest

from critiqor.diagnosis.signals.noise import MAX_ANSWERS, MAX_COMPARED, NoiseFilter, items_of, without_noise


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"request_id":"3fa1","state":"HELD"}', '{"request_id":"9b00","state":"HELD"}'),
        ('{"traceId":"a","serverTime":"x1","n":4}', '{"traceId":"b","serverTime":"x2","n":4}'),
        ('{"state":"up","uptime_seconds":12}', '{"state":"up","uptime_seconds":95}'),
        ('{"state":"queued","attempts":1}', '{"state":"queued","attempts":2}'),
        ('["b","a"]', '["a","b"]'),
        ('{"items":[{"id":1,"n":[2,3]},{"id":2}]}', '{\n  "items": [{"id": 2}, {"n": [3, 2], "id": 1}]\n}'),
        ('1) "w-01"\n2) "w-02"', '1) "w-02"\n2) "w-01"'),
        ("1. Tides\n2. Moon\n(388 ms)", "1. Moon\n2. Tides\n(616 ms)"),
        ("state: held request-id: 77aa10", "state: held request-id: 81cc20"),
        ("attempt 3 of 10: not ready", "attempt 4 of 10: not ready"),
        ("last seen 12 seconds ago", "last seen 41 seconds ago"),
        ("button 'Next' (disabled)\nsession expires in 14:18", "button 'Next' (disabled)\nsession expires in 9:59"),
        ("NAME STATUS AGE\nweb-1 Pending 45s", "NAME STATUS AGE\nweb-1 Pending 2m10s"),
    ],
)
def test_noise_makes_no_difference(one: str, other: str) -> None:
    assert without_noise(one) == without_noise(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"progress":18}', '{"progress":19}'),
        ('[{"id":1,"state":"done"},{"id":2,"state":"open"}]', '[{"id":1,"state":"open"},{"id":2,"state":"done"}]'),
        ("12 of 40 files", "13 of 40 files"),
        ("loss: 0.82", "loss: 0.79"),
        ("p99 21ms", "p99 35ms"),
        ("departure 07:40", "departure 09:10"),
        ('{"id":"rv_1"}', '{"id":"rv_2"}'),
    ],
)
def test_what_may_be_the_subject_makes_a_difference(one: str, other: str) -> None:
    assert without_noise(one) != without_noise(other)


def test_an_answer_is_compared_with_the_last_one_of_the_same_call() -> None:
    answers = NoiseFilter()
    first = answers.mark("status", '{"request_id":"a","state":"held"}')
    assert answers.mark("status", '{"request_id":"b","state":"held"}') == first
    assert answers.mark("status", '{"request_id":"c","state":"sent"}') != first
    assert answers.mark("other", '{"request_id":"d","state":"held"}') != first


def test_long_answers_have_to_be_equal() -> None:
    answers = NoiseFilter()
    first = answers.mark("log", "x\n" * MAX_COMPARED)
    assert answers.mark("log", "x\n" * MAX_COMPARED) == first
    assert answers.mark("log", "x\n" * MAX_COMPARED + "attempt 3") != first


def test_truncated_answers_have_to_be_equal() -> None:
    answers = NoiseFilter()
    first = answers.mark("log", "attempt 1", "digest")
    assert answers.mark("log", "attempt 2", "digest") != first
    assert answers.mark("log", "attempt 1", "digest") == first
    assert answers.mark("log", "attempt 1", "another") != first


def test_only_the_latest_answers_are_kept() -> None:
    answers = NoiseFilter()
    first, *_ = (answers.mark(number, "attempt 1") for number in range(MAX_ANSWERS + 1))
    assert answers.mark(0, "attempt 2") != first
    assert answers.mark(MAX_ANSWERS, "attempt 2") == first


def test_hits_are_the_members_of_the_longest_list() -> None:
    one = items_of('{"took_ms":4,"hits":[{"id":1,"title":"the first"},{"id":2,"title":"the second"}],"tags":["x"]}')
    assert len(one) == 2
    assert items_of('{"took_ms":9,"hits":[{"id":2,"title":"the second"},{"id":1,"title":"the first"}]}') == one
    assert items_of("1. First hit\n2. Second hit\n") == items_of("1. Second hit\n2. First hit\n(91 ms)\n")
    assert items_of("nothing") == ()
