"""`softbench list`: the implementations, and whether this machine has what they require."""

from __future__ import annotations

import argparse
from pathlib import Path

from softbench import resources
from softbench.analysis.document import Heading, Part, lines, table
from softbench.analysis.leaderboard.formatting import plural, short, some
from softbench.cli.command import FORMATS, Command, CommandResult, format_argument
from softbench.measure import device
from softbench.model import Variant


def _run(options: argparse.Namespace) -> CommandResult:
    from softbench.cases import registry  # with the operators, which pages and tables do without

    folders = [resources.bundled_impls(), *map(Path, options.impls)]
    groups: dict[str, list[Variant]] = {}
    for variant in registry.find(folders):
        groups.setdefault(variant.implementation, []).append(variant)
    card = device.gpu()
    missing = {need: device.missing(need, card) for group in groups.values() for need in group[0].requires}
    lacking = sorted(need for need, why in missing.items() if why)
    rows = [(*_row(name, group, lacking), _here(group[0], card)) for name, group in groups.items()]
    able = sum(row[-1] == "yes" for row in rows)
    said = f"{plural(len(rows), 'implementation')}; of {able} this machine has all that they require."
    if card is None:
        said += (
            " Without a GPU Triton kernels are checked in its interpreter, and those that yield cubins are compiled."
        )
    header = ("implementation", "family", "operators", "variants", "takes part", "requires", "here")
    parts: list[Part] = [Heading(str(device.describe().get("name", "this machine"))), *lines(said)]
    parts += table("", header, rows, left=(0, 1, 2, 4, 5, 6))
    parts += table("✗ missing here", ("requirement", "why"), [(need, missing[need]) for need in lacking], left=(0, 1))
    return FORMATS[options.format](parts), 0


def _row(name: str, group: list[Variant], lacking: list[str]) -> tuple[str, ...]:
    """The variants of one implementation differ by operator and parameters."""
    operators = list(dict.fromkeys(variant.operator for variant in group))
    points = len(dict.fromkeys(variant.params for variant in group))
    needs = group[0].requires
    marked = ", ".join(f"✗ {need}" if need in lacking else need for need in needs)
    return (
        short(name),
        short(group[0].family),
        some(operators),
        str(points),
        "when named" if group[0].ladder else "always",
        marked,
    )


def _here(variant: Variant, card: device.Gpu | None) -> str:
    """What a run here makes of it: timed, or, without a GPU, checked in Triton's interpreter or compiled."""
    from softbench.measure.contest.entrant import modes

    ways, _ = modes(variant, card)
    words = {"measure": "yes", "interpret": "checked", "compile": "compiled"}
    return words[ways[0]] if ways else "no"


def _arguments(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--impls",
        metavar="DIR",
        action="append",
        default=[],
        help="further folder of implementation files; may be repeated",
    )
    format_argument(sub)


COMMAND = Command(
    "list",
    "list the implementations, what each requires, and whether this machine has it",
    (
        ("softbench list", "those that come with softbench"),
        ("softbench list --impls kernels", "with those of a folder of your own"),
    ),
    _arguments,
    _run,
)
