"""Scales: values to places along an axis, and the ticks of the axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from softbench.render.report.figure import Axis

MOST_TICKS = 8
FACTORS = (1, 1.1, 1.25, 1.5, 2, 3, 4, 6, 8)
KILO, MEGA = 2**10, 2**20


@dataclass(frozen=True)
class Scale:
    """Places run from 0 to 1; values without a logarithm are at 0. Words have places in their order."""

    kind: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    words: tuple[str, ...] = ()

    def place(self, value: float | str) -> float:
        if isinstance(value, str):
            return (self.words.index(value) + 0.5) / len(self.words)
        if self.kind != "log":
            return (value - self.low) / (self.high - self.low)
        return math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)


def scale(axis: Axis, values: Sequence[float] | Sequence[str]) -> Scale:
    """The scale of an axis for these values, at least one."""
    if axis.scale == "words":
        words = tuple(dict.fromkeys(str(value) for value in values))
        return Scale("words", 0, 1, tuple(((i + 0.5) / len(words), word) for i, word in enumerate(words)), words)
    numbers = [float(value) for value in values]
    if axis.scale == "log":
        return _log(axis, [value for value in numbers if value > 0] or [1.0])
    return _linear(axis, numbers)


def _log(axis: Axis, values: Sequence[float]) -> Scale:
    margin = 1.0 if axis.form == "factor" else 1.15
    low, high = min(values) / margin, max(values) * margin
    high = high if high > low else low * 2
    shown: Iterable[float]
    if axis.form == "factor":
        shown = FACTORS
    elif axis.form == "size":
        first, last = (math.floor(math.log2(v)) for v in (low, high))
        stride = max(1, math.ceil((last - first + 1) / (2 * MOST_TICKS)))
        shown = (2.0**power for power in range(first, last + 1, stride))
    else:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        steps = (1,) if last - first > 3 else (1, 2, 5)
        shown = (step * 10.0**power for power in range(first, last + 1) for step in steps)
    return _made("log", low, high, shown, axis.form)


def _linear(axis: Axis, values: Sequence[float]) -> Scale:
    low, high = min(values), max(values)
    if axis.form == "percent":
        low, high = 0.0, max(102.0, high) * 1.01
    elif axis.from_zero:
        low, high = 0.0, high * 1.05 or 1.0
    else:
        margin = 0.05 * (high - low) or abs(high) * 0.05 or 1.0
        low, high = low - margin, high + margin
    step = _step(high - low)
    first = math.ceil(low / step)
    return _made("linear", low, high, (step * i for i in range(first, math.floor(high / step) + 1)), axis.form)


def _step(span: float) -> float:
    """The least of 1, 2 or 5 times a power of ten that gives at most MOST_TICKS ticks."""
    power = 10.0 ** math.floor(math.log10(span / MOST_TICKS))
    return next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= MOST_TICKS)


def _made(kind: str, low: float, high: float, shown: Iterable[float], form: str) -> Scale:
    return Scale(kind, low, high, tuple((value, _text(value, form)) for value in shown if low <= value <= high))


def _text(value: float, form: str) -> str:
    if form == "size":
        whole = int(value)
        if whole and whole % MEGA == 0:
            return f"{whole // MEGA}M"
        return f"{whole // KILO}k" if whole % KILO == 0 else str(whole)
    text = f"{round(value, 10) + 0.0:.10g}"
    return f"{text}x" if form == "factor" else f"{text} %" if form == "percent" else text
