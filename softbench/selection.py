"""What a command asks: its cases, the implementations, and which of them take part in a case."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from softbench import device, matrix, registry, shrinking
from softbench.contest import traffic
from softbench.model import Case, Variant
from softbench.settings import Settings, SettingsError

_WORD = re.compile(r"(not\s+)?([^\s()]+)")
"""A word of pytest's -k, with the "not" before it."""
_OPERATORS = {"and", "or", "not"}


@dataclass(frozen=True)
class Ladders:
    """Where rungs of ladders take part: everywhere, in cases of profiles that say so, and where they are named.

    words    words of -k; a rung is named by any part of its id
    nodes    names of cells on the command line; a rung is named by its id, or by its implementation
    """

    everywhere: bool = False
    words: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    cases: frozenset[Case] = frozenset()

    @classmethod
    def asked(cls, everywhere: bool, keyword: str, arguments: Sequence[str]) -> Ladders:
        """From --softbench-ladders, -k and the paths of a command. A word that stands behind "not" names nobody."""
        found = [match.groups() for match in _WORD.finditer(keyword)]
        words = tuple(word.lower() for negated, word in found if not negated and word not in _OPERATORS)
        return cls(everywhere, words, tuple(text.split("::")[2] for text in arguments if text.count("::") == 2))

    def admit(self, variant: Variant, case: Case) -> bool:
        """Whether the variant takes part in the case, as far as ladders go: what is no rung always does."""
        return not variant.ladder or self.everywhere or case in self.cases or self._name(variant)

    def _name(self, variant: Variant) -> bool:
        is_a_part = any(word in variant.id.lower() for word in self.words)
        return is_a_part or variant.id in self.nodes or variant.implementation in self.nodes


@dataclass(frozen=True)
class Selection:
    """All cases that a command asks, all variants that were found, and who of them takes part where.

    unread: what is wrong with files that declare nothing, as they are not Python.
    shrunk counts the cases that were cut down for a CPU. Some of them may have become one.
    """

    cases: tuple[Case, ...] = ()
    variants: tuple[Variant, ...] = ()
    ladders: Ladders = Ladders()
    unread: tuple[str, ...] = ()
    shrunk: int = 0

    def candidates(self, case: Case) -> tuple[Variant, ...]:
        """The variants that take part in a case, before -k and its like."""
        return tuple(v for v in self.variants if v.operator == case.operator and self.ladders.admit(v, case))

    @property
    def left_out(self) -> tuple[str, ...]:
        """Names of the rungs that take part in no case, though one asks for their operator."""
        operators = {case.operator for case in self.cases}
        asked = dict.fromkeys(v.implementation for v in self.variants if v.operator in operators)
        present = {v.implementation for case in self.cases for v in self.candidates(case)}
        return tuple(name for name in asked if name not in present)


def select(settings: Settings, ladders: Ladders) -> Selection:
    """Read shapes and implementations; no process is started and nothing heavy is imported."""
    shapes = matrix.load(settings.shapes)
    cases: dict[str, Case] = {}
    for name in settings.profiles:
        for case in shapes.profile(name):
            if cases.setdefault(case.id, case) != case:
                raise SettingsError(
                    f"--softbench-profile: {case.id} differs between the profiles {', '.join(settings.profiles)}"
                )
    operators = dict.fromkeys(case.operator for case in cases.values())
    cases |= {case.id: case for case in matrix.drawn(operators, settings.drawn, settings.drawn_from)}
    _require_gpu(settings)
    selected = matrix.select(tuple(cases.values()), **{name: text or None for name, text in settings.axes})
    own = {case for name in settings.profiles if name in shapes.ladders for case in shapes.profile(name)}
    fits = (lambda case: case) if settings.full_size or device.gpu() is not None else shrinking.fit
    fitted = {case: fits(case) for case in selected}
    unread: list[registry.NotPython] = []
    return Selection(
        tuple(dict.fromkeys(fitted.values())),
        registry.find(settings.impls, unread=unread),
        replace(ladders, cases=frozenset(fitted[case] for case in selected if case in own)),
        tuple(map(str, unread)),
        sum(case != found for case, found in fitted.items()),
    )


def _require_gpu(chosen: Settings) -> None:
    traffics = "--softbench-traffic: counts bytes" if chosen.traffic else ""
    wants = traffics or ("--softbench-device-clock: times kernels" if chosen.device_clock else "")
    if wants and device.gpu() is None:
        raise SettingsError(f"{wants} on a GPU, and no CUDA GPU is visible here")
    if chosen.traffic and not traffic.profiler():
        raise SettingsError(
            "--softbench-traffic: ncu is neither on the PATH nor in $CUDA_HOME/bin; install Nsight Compute, or leave it out"
        )
