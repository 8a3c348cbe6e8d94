"""Loads exporters and importers of extensions into this process. One that cannot be used becomes a warning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from critiqor.errors import CritiqorError
from critiqor.extensions.entry_points import Extension, Group, describe_error, installed

Part = TypeVar("Part")


class Loaded(NamedTuple, Generic[Part]):
    """The usable parts of a group, and what is wrong with the others."""

    parts: dict[str, Part]
    origins: dict[str, Extension]
    failed: list[tuple[Extension, str]]
    """Extensions that cannot be used, and why."""

    @property
    def problems(self) -> list[str]:
        """Why extensions cannot be used: one sentence each, with the names of the part and its package."""
        return [f"{extension} cannot be used: {reason}" for extension, reason in self.failed]

    def failure(self, name: str, error: BaseException) -> CritiqorError:
        """Return the error to raise when a part of an extension failed while it was used."""
        origin = self.origins[name]
        fix = f"report it to the authors of {origin.package}, or: pip uninstall {origin.package}"
        return CritiqorError(f"{origin} failed: {describe_error(error)}", fix=fix)


def load_parts(group: Group, check: Callable[[str, object], Part]) -> Loaded[Part]:
    """Load the exporters or importers of extensions. `check` returns the part, or raises what is wrong with it."""
    loaded: Loaded[Part] = Loaded({}, {}, [])
    for extension in installed(group):
        try:
            if extension.name in loaded.parts:
                raise CritiqorError(f"the name is taken by {loaded.origins[extension.name].package}")
            loaded.parts[extension.name] = check(extension.name, extension.load())
            loaded.origins[extension.name] = extension
        except (Exception, SystemExit) as error:
            loaded.failed.append((extension, describe_error(error)))
    return loaded
