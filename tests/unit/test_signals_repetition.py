"""Whether a user orders repetition, in several languages."""

from __future__ import annotations

import pytest

from critiqor.diagnosis.signals.repetition import orders_repetition


@pytest.mark.parametrize(
    "request_",
    [
        "Ping the gateway ten times.",
        "Check every 10 minutes whether a file arrived.",
        "Load-test the staging host.",
        "Try to reproduce bug 618, three attempts.",
        "Run it 5x please",
        "Lass den Test zehnmal laufen.",
        "Prüfe alle 5 Minuten den Status.",
        "Ejecuta la prueba 10 veces.",
        "Relance le test cinq fois.",
        "Corre o teste 4 vezes.",
        "Esegui il test 6 volte.",
        "Draai de test 8 keer.",
        "Uruchom test 7 razy.",
        "Прогони тест десять раз.",
        "Testi 10 kez dene.",
        "把测试跑10次",
        "テストを10回実行して",
        "테스트를 10번 실행해 줘",
        "شغل الاختبار 5 مرات",
    ],
)
def test_ordered_repetition_is_understood(request_: str) -> None:
    assert orders_repetition(request_)


@pytest.mark.parametrize(
    "request_",
    [
        "Find the lease and tell me when it ends.",
        "Send it one time only.",
        "Every file has to be read.",
        "Fix the failing tests in 3 files.",
        "Prüfe alle Dateien.",
        "Cada cliente recibe un correo.",
    ],
)
def test_other_requests_order_no_repetition(request_: str) -> None:
    assert not orders_repetition(request_)


def test_long_request_quotes_a_document() -> None:
    assert not orders_repetition(
        "Fix this bug.\n\nSteps to reproduce: run it ten times.\n" + "A line of a log.\n" * 100
    )


def test_distance_is_no_interval() -> None:
    assert not orders_repetition("I charge the car every 100 miles.")
