"""Which addresses the dashboard listens on, and which host names it accepts."""

from __future__ import annotations

import pytest

from critiqor.dashboard.web.bind_address import LOOPBACK, listen, resolve_host
from critiqor.errors import CritiqorError, UsageError


@pytest.mark.parametrize(
    ("host", "port", "names"),
    [
        ("127.0.0.1", 8000, ("127.0.0.1:8000", "localhost:8000")),
        ("::1", 8000, ("[::1]:8000", "localhost:8000")),
        ("[::1]", 8000, ("[::1]:8000", "localhost:8000")),
        ("127.0.0.2", 8000, ("127.0.0.2:8000",)),
        ("192.0.2.7", 8000, ("192.0.2.7:8000",)),
        ("2001:DB8:0::7", 8000, ("[2001:db8::7]:8000",)),
        ("::ffff:192.0.2.7", 8000, ("192.0.2.7:8000",)),
        ("127.0.0.1", 80, ("127.0.0.1", "localhost", "127.0.0.1:80", "localhost:80")),
    ],
)
def test_only_the_names_of_the_bind_address_are_accepted(host: str, port: int, names: tuple[str, ...]) -> None:
    assert resolve_host(host).names(port) == names


def test_a_host_name_is_kept_with_its_address() -> None:
    place = resolve_host("LocalHost")
    assert place.is_loopback
    assert place.names(8000)[0] == "localhost:8000"
    assert any(str(place.address) in name for name in place.names(8000))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "127.9.9.9", "::ffff:127.0.0.1", "localhost"])
def test_loopback_addresses_are_recognized(host: str) -> None:
    assert resolve_host(host).is_loopback


@pytest.mark.parametrize("host", ["192.0.2.7", "10.0.0.1", "2001:db8::7", "fd00::7", "169.254.0.1", "::ffff:10.0.0.1"])
def test_other_addresses_are_not_loopback(host: str) -> None:
    assert not resolve_host(host).is_loopback


@pytest.mark.parametrize(
    "host",
    [
        *("", " ", "0.0.0.0", "::", "[::]", "::0", "::ffff:0.0.0.0", "0x0", "*", "127.1", "0", "1.2.3.4.5"),
        *("fe80::1%lo", "224.0.0.1", "ff02::1", "a b", "http://localhost", "localhost:80", "user@localhost", "a/b"),
        *("-x", "a..b", "é.example", "x\r\nHost: y", "a" * 300, "no-such-name.invalid"),
    ],
)
def test_a_host_that_is_not_one_address_is_refused(host: str) -> None:
    with pytest.raises(UsageError) as refused:
        resolve_host(host)
    assert refused.value.fix and "--host ADDRESS" in refused.value.fix


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.3"])
def test_it_listens_on_that_address_only(host: str) -> None:
    with listen(resolve_host(host), 0) as listener:
        assert listener.getsockname()[0] == host


def test_an_address_of_another_machine_cannot_be_listened_on() -> None:
    with pytest.raises(CritiqorError):
        listen(resolve_host("192.0.2.200"), 0)


def test_the_default_port_is_used_unless_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with listen(resolve_host(LOOPBACK), 0) as probe:
        port = probe.getsockname()[1]
    monkeypatch.setattr("critiqor.dashboard.web.bind_address.DEFAULT_PORT", port)
    with listen(resolve_host(LOOPBACK), None) as first, listen(resolve_host(LOOPBACK), None) as second:
        assert first.getsockname()[1] == port
        assert second.getsockname()[1] not in (0, port)
