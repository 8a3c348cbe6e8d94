"""What the user says about a run, annotations.json: tags, a note and feedback on findings. No seal covers it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from shlex import quote

import msgspec

from critiqor.errors import BrokenRecordError, UsageError
from critiqor.storage.atomic import open_regular_file, write_json
from critiqor.storage.lock import exclusive
from critiqor.storage.paths import SessionPaths

MAX_TAGS = 20
MAX_TAG = 40
"""Maximum length of a tag in characters."""
MAX_NOTE = 4000
"""Maximum length of a note in characters."""
_MAX_BYTES = 1 << 20


class Feedback(msgspec.Struct, frozen=True, kw_only=True):
    """The user's word that a finding is wrong."""

    finding_id: str
    """Id of the finding in the diagnosis that the user saw."""
    type: str
    cause: str
    """The cause of the finding, which is the same in a later diagnosis."""
    session_key: str | None = None
    given_at: str


class Annotations(msgspec.Struct, frozen=True, kw_only=True):
    """What the user says about a run."""

    tags: list[str] = msgspec.field(default_factory=list)
    note: str = ""
    feedback: list[Feedback] = msgspec.field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.tags or self.note or self.feedback)

    def calls_wrong(self, cause: str, session_key: str | None) -> bool:
        """Return whether the user said that a finding is wrong."""
        return any((each.cause, each.session_key) == (cause, session_key) for each in self.feedback)


def read_annotations(paths: SessionPaths, run_id: str) -> Annotations:
    """Return the annotations of a run. Raise `BrokenRecordError` if the file is damaged."""
    path = paths.annotations_path(run_id)
    try:
        with open_regular_file(path, follow_links=False) as file:
            return msgspec.json.decode(file.read(_MAX_BYTES), type=Annotations)
    except FileNotFoundError:
        return Annotations()
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"the annotations of {run_id} cannot be read: {_reason(error)}"
        raise BrokenRecordError(message, fix=f"rm {quote(str(path))}") from error


def change_annotations(paths: SessionPaths, run_id: str, change: Callable[[Annotations], Annotations]) -> Annotations:
    """Change the annotations of a run. A damaged file is not overwritten."""
    with exclusive(paths.lock_path):
        changed = change(read_annotations(paths, run_id))
        write_json(paths.annotations_path(run_id), changed)
    return changed


def parse_tags(words: str) -> list[str]:
    """Return the tags in a text, which commas separate. Raise `UsageError` if there are too many or one is too long."""
    tags = sorted(_unique(" ".join(word.split()) for word in words.split(",")))
    if len(tags) > MAX_TAGS or any(len(tag) > MAX_TAG for tag in tags):
        raise UsageError(
            f"A run has at most {MAX_TAGS} tags of {MAX_TAG} characters.", fix="Use fewer or shorter tags."
        )
    return tags


def _unique(tags: Iterable[str]) -> dict[str, None]:
    return dict.fromkeys(tag for tag in tags if tag)


def _reason(error: Exception) -> str:
    return error.strerror or "" if isinstance(error, OSError) else str(error)
