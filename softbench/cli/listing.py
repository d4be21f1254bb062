"""`softbench list`: the implementations, and whether this machine meets their requirements."""

from __future__ import annotations

import argparse
from pathlib import Path

from softbench import resources
from softbench.analysis.document import Heading, Part, lines, table
from softbench.analysis.leaderboard.formatting import plural, short, some
from softbench.cli.command import FORMAT, FORMATS, Command, CommandResult, argument
from softbench.measure import device
from softbench.model import Variant


def _run(options: argparse.Namespace) -> CommandResult:
    from softbench.cases import registry  # imports the operators, which other commands do not need

    folders = [resources.bundled_impls(), *map(Path, options.impls)]
    groups: dict[str, list[Variant]] = {}
    for variant in registry.find(folders):
        groups.setdefault(variant.implementation, []).append(variant)
    card = device.gpu()
    missing = {need: device.missing(need, card) for group in groups.values() for need in group[0].requires}
    lacking = sorted(need for need, why in missing.items() if why)
    rows = [(*_row(name, group, lacking), _here(group[0], card)) for name, group in groups.items()]
    able = sum(row[-1] == "yes" for row in rows)
    text = f"{plural(len(rows), 'implementation')}; this machine meets the requirements of {able}."
    if card is None:
        text += " Without a GPU Triton kernels are checked in its interpreter, and kernels with cubins are compiled."
    header = ("implementation", "family", "operators", "variants", "takes part", "requires", "here")
    parts: list[Part] = [Heading(str(device.describe().get("name", "this machine"))), *lines(text)]
    parts += table("", header, rows, left=(0, 1, 2, 4, 5, 6))
    parts += table("✗ missing here", ("requirement", "why"), [(need, missing[need]) for need in lacking], left=(0, 1))
    return FORMATS[options.format](parts), 0


def _row(name: str, group: list[Variant], lacking: list[str]) -> tuple[str, ...]:
    """The row of one implementation, whose variants differ by operator and parameters."""
    operators = list(dict.fromkeys(variant.operator for variant in group))
    points = len(dict.fromkeys(variant.params for variant in group))
    needs = group[0].requires
    marked = ", ".join(f"✗ {need}" if need in lacking else need for need in needs)
    takes_part = "when named" if group[0].ladder else "always"
    return short(name), short(group[0].family), some(operators), str(points), takes_part, marked


def _here(variant: Variant, card: device.Gpu | None) -> str:
    """What a run here does with it: time it, or without a GPU check it in Triton's interpreter, or compile it."""
    from softbench.measure.contest.entrant import mode_of

    mode, _ = mode_of(variant, card)
    words = {"measure": "yes", "interpret": "checked", "compile": "compiled"}
    return words.get(mode, "no")


COMMAND = Command(
    "list",
    "list the implementations, their requirements, and whether this machine meets them",
    (
        ("softbench list", "those that come with softbench"),
        ("softbench list --impls kernels", "and those of your own folder"),
    ),
    (
        argument(
            "--impls",
            metavar="DIR",
            action="append",
            default=[],
            help="further folder of implementation files; can be repeated",
        ),
        FORMAT,
    ),
    _run,
)
