"""Different wordings of one cause of failures."""

from __future__ import annotations

import pytest

from critiqor.diagnosis.signals.causes import DISK, LOGIN, NETWORK, cause_of_failure


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("npm ERR! code ENOSPC", DISK),
        ("OSError: [Errno 28] No space left on device: '/data/a.jpg'", DISK),
        ("tar: /data/a.tgz: Wrote only 4096 of 10240 bytes", DISK),
        ("HTTP 401: Bad credentials (https://api.github.com/graphql)", LOGIN),
        ("curl: (22) The requested URL returned error: 401", LOGIN),
        ("fatal: Authentication failed for 'https://github.com/a/b.git/'", LOGIN),
        ("An error occurred (ExpiredToken): the security token included in the request is expired", LOGIN),
        ("curl: (6) Could not resolve host: pypi.org", NETWORK),
        ("Temporary failure resolving 'deb.debian.org'", NETWORK),
        ("connect ECONNREFUSED 127.0.0.1:5432", "127.0.0.1:5432 refuses connections"),
        ("bash: cd: services/orders: No such file or directory", "missing services/orders"),
        ("sh: 1: cd: can't cd to services/orders", "missing services/orders"),
        ("/bin/bash: line 1: /app/venv/bin/activate: No such file or directory", "missing /app/venv/bin/activate"),
        ("touch: cannot touch '/etc/app/x': Permission denied", "denied /etc/app"),
        ("AssertionError: 3 != 4", ""),
        ("token count: 401 in 3 files", ""),
    ],
)
def test_cause_is_named(text: str, cause: str) -> None:
    assert cause_of_failure(text, writes=False) == cause


def test_folder_is_missing_if_a_file_in_it_cannot_be_written() -> None:
    error = "ENOENT: no such file or directory, open '/mnt/labels/7703.zpl'"
    assert cause_of_failure(error, writes=True) == "missing /mnt/labels"
    assert cause_of_failure(error, writes=False) == "missing /mnt/labels/7703.zpl"
