"""Seconds and bytes as people read them, and ticks at round numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable

_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def time_unit(longest_s: float) -> tuple[float, str]:
    """The unit for an axis that ends at `longest_s`: its length in seconds, and its name.

    >>> time_unit(126e-6)
    (1e-06, 'µs')
    """
    for seconds, name in _TIME_UNITS:
        # 0.9995 and more is shown as 1.00 of the larger unit.
        if longest_s >= 0.9995 * seconds:
            return seconds, name
    return _TIME_UNITS[-1]


def three_digits(value: float) -> str:
    """A number with three significant digits and no needless zeros.

    >>> three_digits(126.04), three_digits(0.25), three_digits(1048.0), three_digits(0)
    ('126', '0.25', '1048', '0')
    """
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_time(seconds: float, unit: tuple[float, str] | None = None) -> str:
    """A duration with its unit.

    >>> format_time(126e-6), format_time(0.0), format_time(-1e-19)
    ('126 µs', '0 s', '0 s')
    """
    if abs(seconds) < 5e-13:  # half of the clock's step, a picosecond: what sums of floats leave
        seconds = 0.0
    if unit is None:
        unit = time_unit(abs(seconds)) if seconds else (1.0, "s")
    return f"{three_digits(seconds / unit[0])} {unit[1]}"


def format_interval(start_s: float, end_s: float, unit: tuple[float, str]) -> str:
    """Start and end with as many decimals as their difference needs, then the difference.

    >>> format_interval(63.5e-6, 127e-6, (1e-6, "µs"))
    '63.5 to 127.0 µs (63.5 µs long)'
    """
    scale, name = unit
    length = (end_s - start_s) / scale
    decimals = 1 if length <= 0 else min(6, max(0, 2 - math.floor(math.log10(length))))
    numbers = f"{start_s / scale:.{decimals}f} to {end_s / scale:.{decimals}f}"
    return f"{numbers} {name} ({three_digits(length)} {name} long)"


def format_bytes(nbytes: float) -> str:
    """A number of bytes.

    >>> format_bytes(1000), format_bytes(64000), format_bytes(3 * 2**20)
    ('1000 B', '62.5 KiB', '3 MiB')
    """
    value = float(nbytes)
    for name in _BYTE_UNITS:
        if abs(value) < 1024 or name == _BYTE_UNITS[-1]:
            break
        value /= 1024
    return f"{three_digits(value)} {name}"


def bytes_in(base: int, nbytes: float) -> str:
    """A number of bytes in units of 1000 or of 1024.

    >>> bytes_in(1000, 8000), bytes_in(1024, 8 * 2**20), bytes_in(1000, 553_430_176)
    ('8 kB', '8 MiB', '553 MB')
    """
    if base == 1024:
        return format_bytes(nbytes)
    value, power = float(nbytes), 0
    # 999.5 and more would be shown as 1000 of the smaller unit.
    while abs(value) >= 999.5 and power < 4:
        value, power = value / 1000, power + 1
    return f"{three_digits(value)} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"


def byte_base(sizes: Iterable[int]) -> int:
    """The units in which sizes are round: 1024 if most bytes are in whole KiB that are no round kB.

    >>> byte_base([8000, 2000]), byte_base([2**20] * 14), byte_base([])
    (1000, 1024, 1000)
    """
    votes = {1000: 0, 1024: 0}
    for size in sizes:
        binary = size >= 1024 and size % 1024 == 0
        decimal = f"{float(f'{size:.3g}'):.0f}" == str(size)
        votes[1024 if binary and not decimal else 1000] += size
    return 1024 if votes[1024] > votes[1000] else 1000


def format_count(number: int, noun: str) -> str:
    """So many of something.

    >>> format_count(1, "rank"), format_count(64, "rank")
    ('1 rank', '64 ranks')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def ordinal(number: int) -> str:
    """A place in an order.

    >>> [ordinal(n) for n in (1, 2, 3, 4, 11, 22)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd']
    """
    teens = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def round_ticks(longest: float, count: int) -> list[float]:
    """About `count` ticks from 0 to at most `longest`, a step of 1, 2 or 5 times a power of ten.

    >>> round_ticks(126.0, 7)
    [0.0, 20.0, 40.0, 60.0, 80.0, 100.0, 120.0]
    """
    if longest <= 0 or count < 1:
        return [0.0]
    rough = longest / count
    power = 10.0 ** math.floor(math.log10(rough))
    # 0.9999 and 1e-9 forgive what rounding does to steps and ends that are meant to be round.
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.9999)
    # Multiples, not sums: adding the step up would carry rounding into the last label.
    return [index * step for index in range(int(longest / step * (1 + 1e-9)) + 1)]
