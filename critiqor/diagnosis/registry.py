"""The registry of detectors: built-in modules and those of extensions are registered by the same checks."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from typing import Any, get_args

from critiqor.diagnosis.detector import RecordingDetector, RunDetector, SessionDetector, TimelineDetector
from critiqor.errors import RegistrationError
from critiqor.spans.calls import RunSpan

_TYPE = re.compile(r"[a-z][a-z0-9_]{2,59}")
_SPANS = get_args(RunSpan)
_NEEDS = (*_SPANS, "failed call", "action")


class DetectorRegistry:
    """Failure types with their meanings, and the classes that detect them."""

    def __init__(self, taken: Collection[str] = ()) -> None:
        """`taken` are failure types of other registries."""
        self._taken = taken
        self.meanings: dict[str, str] = {}
        """Every failure type with its meaning, in the order of registration."""
        self.run_detectors: list[type[RunDetector[Any]]] = []
        """Classes that are created for every agent run."""
        self.session_detectors: list[type[SessionDetector[Any]]] = []
        """Classes that are created for every session."""
        self.recording_detectors: list[type[RecordingDetector]] = []
        """Classes that are created once per recording."""

    def register(self, module: object, *, built_in: bool = False) -> None:
        """Register the detectors of a module: its `TYPE`, its `MEANING`, and the detector classes that it defines.

        An extension must have a `RunDetector` or a `SessionDetector`: what the others read is not a public interface.
        Raise `RegistrationError` if the type is taken or invalid, or if a part is missing.
        """
        type_, meaning = getattr(module, "TYPE", None), getattr(module, "MEANING", None)
        if not isinstance(type_, str) or not _TYPE.fullmatch(type_):
            raise RegistrationError("TYPE must be a word of lowercase letters, digits and underscores")
        if type_ in self.meanings or type_ in self._taken:
            raise RegistrationError(f"the type {type_} is taken")
        if not isinstance(meaning, str) or not meaning.strip():
            raise RegistrationError("MEANING must say in a few words what the type means")
        kinds = (RunDetector, SessionDetector, *((RecordingDetector, TimelineDetector) if built_in else ()))
        classes = [each for each in vars(module).values() if _is_detector(each, module, kinds)]
        if not classes:
            raise RegistrationError("it defines no class that inherits from RunDetector or SessionDetector")
        for each in classes:
            _check_interface(each)
        self.meanings[type_] = meaning
        self.run_detectors += [each for each in classes if issubclass(each, RunDetector)]
        self.session_detectors += [each for each in classes if issubclass(each, SessionDetector)]
        self.recording_detectors += [each for each in classes if issubclass(each, RecordingDetector)]


def _is_detector(value: object, module: object, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, type) and issubclass(value, kinds) and value.__module__ == getattr(module, "__name__", "")


def _check_interface(kind: type) -> None:
    if inspect.isabstract(kind):
        missing = [name for name in dir(kind) if getattr(getattr(kind, name), "__isabstractmethod__", False)]
        raise RegistrationError(f"{kind.__name__} does not implement {', '.join(missing)}")
    expected = {"OBSERVES": _SPANS} if issubclass(kind, RunDetector | SessionDetector) else {}
    if issubclass(kind, RunDetector):
        expected["NEEDS"] = _NEEDS
    for name, allowed in expected.items():
        value = getattr(kind, name, None)
        if not isinstance(value, tuple) or not value or any(each not in allowed for each in value):
            raise RegistrationError(f"{kind.__name__}.{name} must be a tuple of kinds of spans")
