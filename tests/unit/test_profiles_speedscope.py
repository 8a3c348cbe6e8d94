"""The export for speedscope: what its importer demands, and the same times as in the profile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import cpu_document, read_document, write_real_profiles

from critiqor.exporters import speedscope
from critiqor.model.profiles import IDLE, CpuProfile
from critiqor.timeline.profiles import read_cpu_profiles
from critiqor.timeline.profiles.cpu_hotspots import frame_times

CALLS = {"(root)": ["main", "(idle)"], "main": ["work"], "work": ["work#inner"]}


def exported(*profiles: CpuProfile) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(b"".join(speedscope.report(profiles)))
    return document


def check(document: dict[str, Any]) -> None:
    """What the schema of the format says, and what its importer relies on beyond."""
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = document["shared"]["frames"]
    assert all(isinstance(frame["name"], str) for frame in frames)
    assert all(frame.keys() <= {"name", "file", "line", "col"} for frame in frames)
    for profile in document["profiles"]:
        assert profile.keys() == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert (profile["type"], profile["unit"]) == ("sampled", "microseconds")
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(0 <= number < len(frames) for stack in profile["samples"] for number in stack)
        assert all(weight > 0 for weight in profile["weights"])
        assert sum(profile["weights"]) == profile["endValue"] - profile["startValue"]


def test_stacks_go_from_the_outermost_call_inwards_and_neighbours_of_one_stack_are_one(tmp_path: Path) -> None:
    seen = [("work", 100), ("work", 200), ("(idle)", 400), ("work#inner", 600)]
    document = exported(read_document(tmp_path, cpu_document(CALLS, seen, 1000)))
    check(document)
    names = [frame["name"] for frame in document["shared"]["frames"]]
    [profile] = document["profiles"]
    assert [[names[number] for number in stack] for stack in profile["samples"]] == [
        ["main", "work"],
        [],
        ["main", "work", "work"],
    ]
    assert profile["weights"] == [300, 200, 400]
    assert (profile["startValue"], profile["endValue"]) == (100, 1000)
    assert profile["name"] == "pid 4711"


def test_functions_are_shared_by_all_profiles(tmp_path: Path) -> None:
    profile = read_document(tmp_path, cpu_document(CALLS, [("work", 0)], 1000))
    once, twice = exported(profile), exported(profile, profile)
    check(twice)
    assert twice["shared"] == once["shared"]
    assert len(twice["profiles"]) == 2


def test_profile_without_samples_is_an_empty_one(tmp_path: Path) -> None:
    document = exported(read_document(tmp_path, cpu_document(CALLS, [], 0)))
    assert document["profiles"][0]["samples"] == []
    check(document)


@given(st.lists(st.tuples(st.sampled_from(["main", "work", "work#inner", "(idle)"]), st.integers(0, 5000)), min_size=1))
def test_own_times_are_those_of_the_profile(
    tmp_path_factory: pytest.TempPathFactory, seen: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("profile")
    profile = read_document(folder, cpu_document(CALLS, sorted(seen, key=lambda each: each[1]), 5000))
    document = exported(profile)
    check(document)
    [written] = document["profiles"]
    own = dict.fromkeys((frame.name for frame in profile.frames), 0)
    for stack, weight in zip(written["samples"], written["weights"], strict=True):
        own[document["shared"]["frames"][stack[-1]]["name"] if stack else IDLE] += weight
    assert own == {frame.name: length for frame, length in zip(profile.frames, frame_times(profile).own, strict=True)}


def test_profile_of_a_real_node_becomes_a_valid_file(tmp_path: Path) -> None:
    write_real_profiles(tmp_path / "profiles", tmp_path)
    document = exported(*read_cpu_profiles(tmp_path / "profiles"))
    check(document)
    assert "burnTime" in [frame["name"] for frame in document["shared"]["frames"]]
    assert str(tmp_path) not in json.dumps(document)
