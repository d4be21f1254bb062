"""The passport of a run: the machine, versions and settings it was made with."""

import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from softbench import __version__
from softbench.cases import environments
from softbench.cases.operators import FileOperator
from softbench.measure import cores, device
from softbench.measure.worker import confining
from softbench.model import Passport, Variant
from softbench.packages import installed
from softbench.session.settings import Settings
from softbench.texts import cut, printable

_ELSEWHERE = ("torch", "triton", "nvidia-cuda-nvrtc")
"""What is listed of another environment even if nothing requires it."""
_ALWAYS = (*_ELSEWHERE, "pytest", "pytest-benchmark")
"""Their requirements are not listed: their version determines them."""


def issue(
    settings: Settings,
    variants: Sequence[Variant],
    seed: int,
    places: Mapping[str, Any] | None = None,
    cases: int = 0,
    operators: Sequence[FileOperator] = (),
) -> Passport:
    """A new passport for a run of this many cases that starts now; places are those of its workers.

    operators  those of files that it is judged by
    """
    card = device.gpu()
    now = datetime.now(timezone.utc)
    machine = device.describe()
    if card is not None:
        machine["telemetry"] = asdict(device.Monitor(card).read())
    machine |= places or {}
    return Passport(
        run_id=f"{now:%Y%m%d-%H%M%S}-{_slug(machine['name'], card is not None)}-{'-'.join(settings.profiles)}",
        started=now.isoformat(timespec="seconds"),
        profiles=settings.profiles,
        seed=seed,
        ranking_clock="graph" if card is not None else "wall",
        command=shlex.join(["pytest", *map(_portable, sys.argv[1:])]),
        device=machine,
        packages=packages(variants),
        commit=commit(),
        cases=cases,
        sources={v.implementation: v.source_hash for v in variants},
        settings=measuring(settings) | {"selection": settings.selection},
        operators=sources_of(operators),
        confined=confined(settings),
    )


def confined(settings: Settings) -> dict[str, str]:
    """What the implementations of a run cannot do to others here, and why they can do the rest."""
    counted = settings.traffic and device.gpu() is not None
    return confining.possible() | ({"under ncu": "no: it needs sockets"} if counted else {})


def sources_of(operators: Sequence[FileOperator]) -> dict[str, tuple[str, ...]]:
    """The lines of the files of operators, as a passport is read."""
    return {found.name: tuple(printable(cut(line)) for line in found.source.splitlines()) for found in operators}


def measuring(settings: Settings) -> dict[str, float | int | bool]:
    """The options that change how a cell is measured."""
    chosen = {name: getattr(settings, name) for name in ("budget_s", "run_budget_s", "timeout_s", "traffic", "device_clock")}
    return chosen | {"threads": 0 if device.gpu() is not None else cores.threads(settings.threads)}


def packages(variants: Sequence[Variant] = ()) -> dict[str, str]:
    """Versions of the packages that decide speed or result: docs/records.md, "Passport". What is required counts recursively."""
    found = {"python": platform.python_version(), "softbench": __version__}
    found |= _required(_ALWAYS, [v for v in variants if not v.interpreter])
    for python, label in {v.interpreter: v.implementation.partition("@")[2] for v in variants if v.interpreter}.items():
        there, own = environments.of(python), [v for v in variants if v.interpreter == python]
        versions = {"python": there.version} | _required(_ELSEWHERE, own, there.path)
        found |= {f"{name} of @{label}": version for name, version in versions.items()}
    return found


def _required(always: Sequence[str], variants: Sequence[Variant], path: Sequence[str] | None = None) -> dict[str, str]:
    waiting = [*always, *(_distribution(r) for v in variants for r in v.requires)]
    found: dict[str, str] = {}
    seen: set[str] = set()
    for name in waiting:  # which grows
        if name in seen or name == "cuda":
            continue
        seen.add(name)
        if (own := installed(name, path)) is None:
            continue
        found[name] = own.version
        if name not in _ALWAYS:
            waiting += [_distribution(text) for text in own.requires or () if "extra ==" not in text]
    return found


def _distribution(requirement: str) -> str:
    """The name in "Flash_Attn >= 2.8; python_version > '3'", as package indices write it."""
    return re.sub(r"[-_.]+", "-", re.match(r"\s*([\w.-]*)", requirement)[1]).lower()  # type: ignore[index]


def difference(passport: Passport, variants: Sequence[Variant]) -> str:
    """Why a run cannot be resumed on this machine, or "".

    Packages that only the variants of this command require do not matter: nothing in the run has used them.
    """
    machine = device.describe()
    for key in ("kind", "name", "driver"):
        if passport.device.get(key) != machine.get(key):
            return f"it was made with {key} {passport.device.get(key)!r}, and here it is {machine.get(key)!r}"
    here = packages(variants)
    for name in sorted({*passport.packages, *packages(), *(name for name in here if "@" in name)}):
        own = installed(name)
        now = here.get(name) or (own.version if own else None)
        if passport.packages.get(name) != now:
            return f"it was made with {name} {passport.packages.get(name)}, and here it is {now}"
    for what, how in confining.possible().items():
        if passport.confined.get(what, how) != how:
            return f"it was made with {what} confined: {passport.confined[what]}, and here: {how}"
    return ""


def _portable(argument: str) -> str:
    """An argument without folders, which exist on this machine only: records are shared."""
    return re.sub(r"(^|=|=venv:)/(?:[^/]*/)*", r"\1", argument)


def _slug(name: str, is_gpu: bool) -> str:
    if not is_gpu:
        return "cpu"
    words = [w for w in re.split(r"[^a-z0-9]+", name.lower()) if w not in ("nvidia", "tesla", "geforce", "")]
    return "-".join(words[:2]) or "gpu"


def commit() -> str:
    """Commit of the checkout that this code runs from, with "+" if files were changed.

    Outside a checkout (a copy on a machine without git) the value of SOFTBENCH_COMMIT, else "".
    """

    folder = Path(__file__).parents[1]

    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True).stdout

    with suppress(OSError, subprocess.SubprocessError):
        if git("ls-files", "--", __file__).strip():
            return git("rev-parse", "--short=12", "HEAD").strip() + ("+" if git("status", "--porcelain", "-uno").strip() else "")
    return os.environ.get("SOFTBENCH_COMMIT", "")
