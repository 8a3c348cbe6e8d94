"""`no_progress`: plans instead of work, and looks from outside instead of work."""

from __future__ import annotations

from story import Story

GUIDE = "Write a guide for new volunteers into guide.md. The notes are in notes.txt."


def plans(names: list[str]) -> Story:
    story = Story().user(GUIDE).calls("read", {"path": "notes.txt"}, "Open Tuesday. Gloves in drawer 2.")
    for number, name in enumerate(names):
        story.calls(
            "write", {"path": name, "content": f"Plan {number} for guide.md: outline, draft"}, f"wrote {number}"
        )
    return story


def test_plan_that_is_written_again_and_again_is_no_progress() -> None:
    finding = plans(["plan.md"] * 6).only("no_progress")
    assert finding.severity == "medium"
    assert finding.occurrences == 6


def test_several_plans_are_no_progress() -> None:
    assert plans(["plan.md", "todo.md", "plan.md", "approach.md", "plan_v2.md"]).only("no_progress").occurrences == 5


def test_plan_that_is_carried_out_is_progress() -> None:
    story = plans(["plan.md"] * 6).calls("write", {"path": "guide.md", "content": "Welcome"}, "wrote guide.md")
    assert "no_progress" not in story.types()


def test_drafts_of_what_was_asked_for_are_progress() -> None:
    assert "no_progress" not in plans(["guide.md"] * 6).types()


def test_files_of_a_new_program_are_progress() -> None:
    names = ["main.py", "cli.py", "model.py", "views.py", "tests.py", "main.py"]
    story = Story().user("Write a small program that shows my appointments.")
    for number, name in enumerate(names):
        story.calls("write", {"path": name, "content": f"# part {number}"}, f"wrote {number}")
    assert "no_progress" not in story.types()


def surveys(request: str) -> Story:
    story = Story().user(request)
    for command in ("ls proposals", "wc -w proposals/*", "ls -la proposals", "file proposals/*", "stat proposals/*"):
        story.runs(command, f"the answer to {command}")
    return story.runs("du -sh proposals", "168K").runs("tree proposals", "6 files").runs("date", "Monday")


def test_folder_that_is_only_listed_and_measured_is_no_progress() -> None:
    assert surveys("Write a comparison of the proposals in proposals/.").only("no_progress").severity == "medium"


def test_listing_and_measuring_can_be_what_was_asked_for() -> None:
    assert surveys("How large are the files in proposals?").types() == []


def test_folder_that_is_listed_before_it_is_read_is_progress() -> None:
    story = surveys("Write a comparison of the proposals in proposals/.")
    assert story.calls("read", {"path": "proposals/alder.txt"}, "Goals: …").types() == []
