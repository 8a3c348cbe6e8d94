from __future__ import annotations

import subprocess
import sys

import pytest

import critiqor
import critiqor.api
import critiqor.errors
import critiqor.run.diagnosis
import critiqor.runtime
import critiqor.session


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", critiqor.__all__)
def test_facade_offers_what_it_lists(name: str) -> None:
    offered = getattr(critiqor, name)
    homes = (critiqor.api, critiqor.run.diagnosis, critiqor.errors, critiqor.runtime, critiqor.session)
    assert name == "__version__" or any(getattr(home, name, None) is offered for home in homes)
    assert name in dir(critiqor)


def test_list_has_no_doubles_and_is_sorted() -> None:
    assert critiqor.__all__ == sorted(set(critiqor.__all__))


def test_other_names_are_not_there() -> None:
    assert not hasattr(critiqor, "finalise_session")
    with pytest.raises(AttributeError, match="finalise_session"):
        getattr(critiqor, "finalise_session")  # noqa: B009 - the type checker knows that it is not there


def test_star_import_brings_the_whole_list() -> None:
    answer = python("-c", "from critiqor import *; print(create_session.__module__, monitor_openclaw.__module__)")
    assert answer.stdout == "critiqor.session critiqor.recording.monitor\n"


@pytest.mark.parametrize("module", ["critiqor", "critiqor.cli"])
def test_import_of_the_package_brings_nothing_heavy(module: str) -> None:
    heavy = "msgspec", "psutil", "filelock", "critiqor.session", "critiqor.runtime"
    answer = python("-c", f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])")
    assert answer.stdout == "[]\n"


def test_import_of_the_session_loads_no_diagnosis_and_few_modules() -> None:
    names = "sorted(name for name in sys.modules if name.split('.')[0] == 'critiqor')"
    loaded = python("-c", f"import sys, critiqor.session; print(*{names})").stdout.split()
    assert not [name for name in loaded if name.startswith(("critiqor.diagnosis", "critiqor.timeline"))]
    assert len(loaded) <= 30


def test_package_can_be_run_as_a_module() -> None:
    answer = python("-m", "critiqor", "--version")
    assert (answer.returncode, answer.stdout) == (0, f"critiqor, version {critiqor.__version__}\n")
    assert python("-m", "critiqor", "nonsense").returncode == 2
