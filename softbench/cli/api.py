"""`softbench.run`: a run as a function, for programs that try kernels."""

import json
import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from softbench import resources
from softbench.cases import operator_files, operators, registry
from softbench.cli import measuring
from softbench.model import Case, Run
from softbench.texts import InputError


def run(
    kernels: Iterable[str | Path],
    cases: str | Sequence[Case],
    *,
    budget_s: float | None = None,
    seed: int | None = None,
    reports: str | Path = "reports",
    operators_in: str | Path | None = None,
) -> Run:
    """Check, time and rank kernels in cases, as ``pytest --softbench`` does, in processes of their own; its records are kept.

    kernels    files and folders of implementations, and names of bundled ones. The roof and torch eager take part anyway.
    cases      `Case` objects, or names of profiles of the bundled shapes.yaml ("published,odd")
    budget_s   seconds of measuring per case; None as for pytest
    seed       of inputs and orders; None draws one
    reports    folder of the records
    operators_in  folder of operators of one's own

    Raises ValueError, of one line, for what cannot be run, and RuntimeError for a run that ended early.
    """
    asked = [kernels] if isinstance(kernels, (str, Path)) else list(kernels)
    with tempfile.TemporaryDirectory(prefix="softbench-") as folder:
        project = Path(folder)
        folders, names = _chosen(asked, [Path(operators_in)] if operators_in is not None else [])
        (project / "pytest.ini").write_text("[pytest]\n")
        (project / "conftest.py").write_text(measuring.ONLY.format(names=sorted(names)))
        given = {
            "reports": Path(reports).resolve(),
            "budget": budget_s,
            "seed": seed,
            "operators": None if operators_in is None else Path(operators_in).resolve(),
            "profile": cases if isinstance(cases, str) else _profiles(cases, project),
        }
        words = ["--softbench-ladders", *(f"--softbench-impls={path}" for path in folders)]
        words += [f"--softbench-{name}={value}" for name, value in given.items() if value is not None]
        try:
            return measuring.measure(words, project)
        except measuring.RunRefused as error:
            raise InputError(str(error) if isinstance(cases, str) else _by_case(str(error), cases)) from None
        except measuring.RunFailed as error:
            raise RuntimeError(str(error)) from None


def _chosen(kernels: Sequence[str | Path], own: Sequence[Path]) -> tuple[list[Path], set[str]]:
    """Folders to look in, and the names of implementations to take."""
    paths = [Path(kernel).resolve() for kernel in kernels if Path(kernel).exists()]
    folders = list(dict.fromkeys(path if path.is_dir() else path.parent for path in paths))
    known_before = operators.own()
    try:
        operator_files.load(own, folders)
        found = registry.find([resources.bundled_impls(), *folders])
    finally:
        operators.use(known_before)
    names = {v.implementation for v in found if any(Path(v.path).is_relative_to(path) for path in paths)}
    known = dict.fromkeys(v.implementation for v in found)
    for name in (str(kernel) for kernel in kernels if not Path(kernel).exists()):
        if name not in known:
            what = f"{name!r:.80} is no file, no folder and no bundled implementation"
            raise InputError(f"{what}; {resources.choose_from(name, known)}")
        names.add(name)
    if not names:
        raise InputError("these files declare no implementation; decorate a factory with @implementation(...)")
    return folders, names


def _profiles(cases: Sequence[Case], project: Path) -> str:
    """Write the cases as a shapes file, which is JSON, and so YAML; the names of its profiles."""
    if not cases:
        raise InputError("no cases; give Case objects, or names of profiles")
    made: dict[str, Any] = {}
    for case in dict.fromkeys(cases):
        group: dict[str, Any] = {
            "operator": case.operator, "dtype": case.dtype, "out_dtype": case.out_dtype, "layout": case.layout,
            "shapes": [list(case.shape)], "distribution": case.distribution,
        }  # fmt: skip
        group |= {"params": dict(case.params)} if case.params else {}
        group |= {"weight": case.weight} if case.weight else {}
        profile = made.setdefault("timed" if case.timed else "checked", {"description": "own", "timed": case.timed, "groups": []})
        profile["groups"].append(group)
    (project / "shapes.yaml").write_text(json.dumps({"profiles": made}))
    return ",".join(made)


def _by_case(message: str, cases: Sequence[Case]) -> str:
    """A mistake in what `_profiles` wrote names the case, not the file, which is gone."""

    def place(group: re.Match[str]) -> str:
        profile = [case for case in dict.fromkeys(cases) if case.timed == (group[1] == "timed")]
        return f"cases[{cases.index(profile[int(group[2])])}]"

    return re.sub(r"^shapes\.yaml:1: profiles\.(\w+)\.groups\[(\d+)\]", place, message)
