"""Units of numbers: what a number measures, as written behind or before it, or in the name of its column."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple


class Unit(NamedTuple):
    """A unit of measurement."""

    measure: str
    """What is measured: `time`, `size`, `percent`, `money`, …; numbers with different measures are never compared."""
    factor: float
    """Size in the base unit of its measure."""


_TIME = {
    1e-6: "us µs microsecond microseconds",
    1e-3: "ms msec millis millisecond milliseconds millisekunden milisegundos millisecondes мс ミリ秒 毫秒 밀리초",
    1.0: "s sec secs second seconds sek sekunde sekunden segundo segundos seconde secondes secondo secondi sekund "
    "sekundy sekunder сек секунд секунды секунда saniye ثانية ثوان ثواني 秒 초",
    60.0: "min mins minute minutes minuten minuto minutos minuti minuut minut minuty minuta мин минут минуты минута "
    "minuter dakika dk دقيقة دقائق 分钟 分鐘 分間 분",
    3600.0: "h hr hrs hour hours std stunde stunden hora horas heure heures ora ore uur uren godz godzin godziny "
    "godzina timme timmar timmen час часа часов saat ساعة ساعات 小时 小時 時間 시간",
    86400.0: "d day days tag tage tagen día días dia dias jour jours giorno giorni dag dagen dzień dni день дня дней "
    "dagar dygn gün يوم أيام 天 日間 일",
    604800.0: "w wk week weeks woche wochen semana semanas semaine semaines settimana settimane weken tydzień "
    "vecka veckor tygodnie tygodni неделя недели недель hafta أسبوع أسابيع 周 週間 주",
}
_SIZE = {
    1.0: "b byte bytes octets байт バイト 字节 바이트",
    1e3: "kb kib кб",
    1e6: "mb mib мб",
    1e9: "gb gib гб",
    1e12: "tb tib тб",
}
_OTHER = {
    ("percent", 1.0): "% percent pct prozent procent процент процента процентов percentage パーセント",
    ("temperature", 1.0): "°c ℃ celsius degc",
    ("fahrenheit", 1.0): "°f ℉ fahrenheit degf",
    ("energy", 1.0): "kwh квтч кВт·ч",
    ("energy", 1e3): "mwh",
    ("power", 1.0): "kw",
    ("length", 1.0): "m meter meters metre metres metro metros mètres метр метров",
    ("length", 1e-3): "mm",
    ("length", 1e-2): "cm",
    ("length", 1e3): "km kilometer kilometers kilometre kilometres kilómetros quilômetros км 公里",
    ("length", 0.3048): "ft foot feet",
    ("length", 1609.344): "mi mile miles meile meilen milla millas",
    ("weight", 1.0): "kg kilo kilos kilogram kilograms кг 公斤",
    ("weight", 1e-3): "gram grams gramm gramos grammes",
    ("weight", 0.45359237): "lb lbs pound-mass",
    ("EUR", 1.0): "€ eur euro euros евро ユーロ 欧元 유로",
    ("USD", 1.0): "$ usd dollar dollars dólares dollari доллар долларов دولار ドル 美元 달러",
    ("GBP", 1.0): "£ gbp pounds",
    ("yen", 1.0): "¥ ￥ jpy 円 yen cny rmb 元 块 人民币 yuan",
    ("KRW", 1.0): "₩ krw 원",
    ("INR", 1.0): "₹ inr rupees rupien रुपये रुपए",
    ("PLN", 1.0): "zł pln złotych złote złoty",
    ("RUB", 1.0): "₽ rub руб рубль рубля рублей",
    ("TRY", 1.0): "₺ tl lira",
    ("CHF", 1.0): "chf franken sfr",
    ("BRL", 1.0): "r$ brl reais",
}
UNITS: dict[str, Unit] = {
    **{word: Unit("time", factor) for factor, words in _TIME.items() for word in words.split()},
    **{word: Unit("size", factor) for factor, words in _SIZE.items() for word in words.split()},
    **{word: Unit(*unit) for unit, words in _OTHER.items() for word in words.split()},
}
NONE = Unit("", 1.0)
_KEY_UNITS = {
    "c": UNITS["°c"],
    "f": UNITS["°f"],
    "pct": UNITS["%"],
    "percent": UNITS["%"],
    "secs": UNITS["s"],
    "price": NONE,
}
_BEFORE = re.compile(r"(R\$|[€$£¥￥₹₩₽₺%]|\b[A-Z]{3})\s?$")
_SIGNS = frozenset("€$£¥￥₹₩₽₺%")
_BEHIND = re.compile(r"\s?(°\s?[CFcf](?!\w)|[€$£¥￥₹₩₽₺%℃℉]|[^\W\d_]+)")
_SPLIT = re.compile(r"[^\W\d_]+|%")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_SHORT_KEYS = frozenset(("m", "d", "w", "b", "h", "c", "f", "mi", "s"))
"""Short names of units that a column rarely means."""


def unit_at(text: str, start: int, end: int) -> Unit:
    """Return the unit of the number at a place of a text: behind it, or before it."""
    if text[end - 1 : end].isalpha():
        return UNITS["s"]  # a duration in several units, as seconds
    if text[end : end + 1] == "-" and text[end + 1 : end + 2].isalpha():
        end += 1  # a 1,284-metre bridge
    if behind := _BEHIND.match(text, end):
        word = behind[1].lower().replace(" ", "")
        if (unit := UNITS.get(word)) is not None:
            return unit
        if _UNSPACED.match(word):
            for size in (3, 2, 1):
                if (unit := UNITS.get(word[:size])) is not None:
                    return unit
    near = text[max(0, start - 4) : start].rstrip()
    if not near or not (near[-1] in _SIGNS or "A" <= near[-1] <= "Z"):
        return NONE
    before = _BEFORE.search(text, max(0, start - 4), start)
    return UNITS.get(before[1].lower(), NONE) if before else NONE


def unit_of_record(names: tuple[str, ...]) -> Unit:
    """Return the unit that a record names beside its numbers: {"value": 3.42, "unit": "%"}, {"currency": "EUR"}."""
    for name in names:
        if len(name) <= 4 and name.lower() not in _SHORT_KEYS and (unit := UNITS.get(name.lower())) is not None:
            return unit
    return NONE


@lru_cache(maxsize=2_000)
def unit_of_name(name: str) -> Unit:
    """Return the unit in the name of a column or member: `size_kb`, `Range (km)`, `p99 ms`."""
    words = [word.lower() for word in _SPLIT.findall(name.replace("_", " "))]
    if "per" in words[1:]:
        words = words[: words.index("per")]  # `usd_per_hour` is an amount of money
    for word in reversed(words[1:] if len(words) > 1 else words):
        if word in _KEY_UNITS and len(words) > 1:
            return _KEY_UNITS[word]
        if word not in _SHORT_KEYS and (unit := UNITS.get(word)) is not None:
            return unit
    return NONE


def is_money(measure: str) -> bool:
    """Return whether a measure is a currency."""
    return measure.isupper() or measure == "yen"


def is_comparable(one: Unit, other: Unit) -> bool:
    """Return whether two numbers can measure the same thing; one without a unit can be anything but a percentage."""
    if one.measure == other.measure:
        return True
    if not one.measure or not other.measure:
        return "percent" not in (one.measure, other.measure)
    return {one.measure, other.measure} == {"temperature", "fahrenheit"}


def converted(number: float, unit: Unit) -> Iterator[tuple[float, float]]:
    """Yield what is derived from a claimed number by a change of its unit, each with the factor."""
    if unit.measure == "time":
        for factor in (1e-6, 1e-3, 1.0, 60.0, 3600.0, 86400.0):
            yield number * unit.factor / factor, unit.factor / factor
    elif unit.measure == "size":
        power = len(str(int(unit.factor))) // 3
        for base in (1000.0, 1024.0):
            for other in range(5):
                factor = base ** (power - other)
                yield number * factor, factor
    elif unit.measure == "fahrenheit":
        yield (number - 32) / 1.8, 1 / 1.8
    elif unit.measure == "temperature":
        yield number * 1.8 + 32, 1.8
    elif unit.measure == "length":
        for factor in (1e-3, 1e-2, 0.3048, 1.0, 1e3, 1609.344):
            yield number * unit.factor / factor, unit.factor / factor
    elif unit.measure == "weight":
        for factor in (1e-3, 0.45359237, 1.0):
            yield number * unit.factor / factor, unit.factor / factor
