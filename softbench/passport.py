"""The passport of a run: where and with what it was made."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

from softbench import __version__, cores, device
from softbench.model import Passport, Variant
from softbench.settings import Settings

_PACKAGES = (
    "torch", "triton", "nvidia-cutlass-dsl", "cuda-core", "nvidia-cuda-nvrtc", "liger-kernel",
    "quack-kernels", "pytest", "pytest-benchmark",
)  # fmt: skip


def issue(
    settings: Settings, variants: Sequence[Variant], seed: int, gpus: Sequence[str] = (), cases: int = 0
) -> Passport:
    """A new passport for a run of so many cases that starts now; gpus are the ids of those that it is spread over."""
    card = device.gpu()
    now = datetime.now(timezone.utc)
    machine = device.describe()
    if card is not None:
        machine["telemetry"] = asdict(device.Monitor(card).read())
    if gpus:
        machine["gpus"] = list(gpus)
    return Passport(
        run_id=f"{now:%Y%m%d-%H%M%S}-{_slug(machine['name'], card is not None)}-{'-'.join(settings.profiles)}",
        started=now.isoformat(timespec="seconds"),
        profiles=settings.profiles,
        ranking_clock="graph" if card is not None else "wall",
        seed=seed,
        command=shlex.join(["pytest", *map(_portable, sys.argv[1:])]),
        device=machine,
        packages=packages(),
        sources={v.implementation: v.source_hash for v in variants},
        commit=_commit(Path(__file__).parent),
        settings={
            "budget_s": settings.budget_s,
            "timeout_s": settings.timeout_s,
            "selection": settings.selection,
            "threads": 0 if card is not None else cores.threads(settings.threads),
        },
        cases=cases,
    )


def packages() -> dict[str, str]:
    """Versions of what decides speed or result; what is not installed is left out."""
    found = {"python": platform.python_version(), "softbench": __version__}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def difference(passport: Passport) -> str:
    """Why a run cannot be gone on with on this machine, or ""."""
    machine = device.describe()
    for key in ("kind", "name", "driver"):
        if passport.device.get(key) != machine.get(key):
            return f"it was made with {key} {passport.device.get(key)!r}, and here it is {machine.get(key)!r}"
    here = packages()
    for name in sorted(set(passport.packages) | set(here)):
        if passport.packages.get(name) != here.get(name):
            return f"it was made with {name} {passport.packages.get(name)}, and here it is {here.get(name)}"
    return ""


def _portable(argument: str) -> str:
    """An argument without the folders that mean something on this machine only: records get passed on."""
    return re.sub(r"(^|=)/(?:[^/]*/)*", r"\1", argument)


def _slug(name: str, is_gpu: bool) -> str:
    if not is_gpu:
        return "cpu"
    words = [w for w in re.split(r"[^a-z0-9]+", name.lower()) if w not in ("nvidia", "tesla", "geforce", "")]
    return "-".join(words[:2]) or "gpu"


def _commit(folder: Path) -> str:
    """Commit of the checkout that this code runs from, with "+" where it was changed.

    Outside of a checkout (a copy on a machine without git) it is what SOFTBENCH_COMMIT says, else "".
    """

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True
        ).stdout

    try:
        if not git("ls-files", "--", __file__).strip():
            return os.environ.get("SOFTBENCH_COMMIT", "")
        return git("rev-parse", "--short=12", "HEAD").strip() + (
            "+" if git("status", "--porcelain", "-uno").strip() else ""
        )
    except (OSError, subprocess.SubprocessError):
        return os.environ.get("SOFTBENCH_COMMIT", "")
