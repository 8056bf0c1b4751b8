"""Lengths, times and settings: text as on the command line, or numbers in bytes and in seconds."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Union

from . import _ssdlab
from ._errors import UsageError

Length = Union[int, str]
"""Bytes as a whole number, or text such as ``"4K"``, ``"1 GiB"``, ``"480 GB"``."""

Duration = Union[int, float, str]
"""Seconds as a number, or text such as ``"60us"``, ``"10s"``, ``"1h 30m"``."""

Value = Union[str, bool, int, float, Fraction, "os.PathLike[str]", Iterable[Union[str, int]]]
"""What a setting or a parameter may be given as."""

_TIME = re.compile(r"[\d.]+ (ns|us|ms|s|h|d)")


def length(name: str, value: Length) -> str:
    """Bytes, as the library reads them."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value != int(value) or value < 0:
        raise UsageError(f"{name} is {value!r}; expected a whole number of bytes, or text such as '4K'")
    return str(int(value))


def duration(name: str, value: Duration) -> str:
    """A time, as the library reads it; numbers are seconds."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not math.isfinite(value) or value < 0:
        raise UsageError(f"{name} is {value!r}; expected a number of seconds, or text such as '10s'")
    return f"{round(value * 1_000_000_000)}ns" if value else "0s"


def plain(name: str, value: Value) -> str:
    """A value that is no length and no time."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UsageError(f"{name} is {value!r}; expected a finite number")
        return str(int(value)) if value == int(value) else repr(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Iterable):
        return ",".join(plain(name, one) for one in value)
    # What numpy and others have for numbers.
    item = getattr(value, "item", None)
    if callable(item):
        return plain(name, item())
    raise UsageError(f"{name} is {value!r}; give it as text, as on the command line")


def _number(value: Value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def kinds_of_settings(experiment: str) -> dict[str, str]:
    """The kind of each parameter of an experiment; empty where there is no such experiment."""
    for name, _, _, settings in _ssdlab.experiments():
        if name == experiment:
            return {setting: kind for setting, kind, *_ in settings}
    return {}


def setting(kind: str | None, name: str, value: Value) -> str:
    """The value of a parameter of an experiment."""
    if kind == "duration" and isinstance(value, (int, float)) and _number(value):
        return duration(name, value)
    return plain(name, value)


def settings(experiment: str, values: Mapping[str, Value] | None) -> list[tuple[str, str]]:
    """Settings as the library reads them."""
    kinds = kinds_of_settings(experiment)
    return [(name, setting(kinds.get(name), name, value)) for name, value in (values or {}).items()]


def _kinds_of_parameters() -> dict[str, str]:
    _, default = _ssdlab.profile_names()
    parameters = _ssdlab.Profile(default).parameters()
    return {key: "duration" for key, value, *_ in parameters if _TIME.fullmatch(value)}


def parameter(key: str, value: Value) -> str:
    """The value of a parameter of simulated drives; numbers are seconds, bytes, and shares of 1."""
    if not isinstance(value, (int, float)) or not _number(value):
        return plain(key, value)
    if key in ("spare", "spare_of_logical"):
        return f"{value * 100:.12g}%"
    if key == "scale" and 0 < value <= 1:
        return plain(key, Fraction(value).limit_denominator(1 << 20))
    if _kinds_of_parameters().get(key) == "duration":
        return duration(key, value)
    return plain(key, value)
