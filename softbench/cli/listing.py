"""`softbench list`: the implementations, and whether this machine meets their requirements."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from softbench import resources
from softbench.analysis.document import Dataset, Document, Heading, lines, table
from softbench.analysis.leaderboard.formatting import plural, short, some
from softbench.cli.command import FORMAT, Command, CommandResult, Options, folders, printed
from softbench.measure import device
from softbench.model import Variant


class Row(NamedTuple):
    """One implementation. here is what a run does with it on this machine: "yes" (time it), "checked", "compiled" or "no"."""

    implementation: str
    family: str
    operators: tuple[str, ...]
    variants: int
    only_if_named: bool
    requires: tuple[str, ...]
    here: str


def _run(options: Options) -> CommandResult:
    from softbench.cases import operator_files, registry  # import the operators, which other commands do not need

    operator_files.load(operator_files.beside(Path()))
    folders = [resources.bundled_impls(), *map(Path, options.impls)]
    groups: dict[str, list[Variant]] = {}
    for variant in registry.find(folders):
        groups.setdefault(variant.implementation, []).append(variant)
    card = device.gpu()
    missing = {need: device.missing(need, card) for group in groups.values() for need in group[0].requires}
    rows = [_row(name, group, card) for name, group in groups.items()]
    machine = str(device.describe().get("name", "this machine"))
    datasets = (
        Dataset("implementations", Row._fields, tuple(rows)),
        Dataset("requirements", ("requirement", "missing"), tuple(missing.items())),
        Dataset("machine", ("name", "has_gpu"), ((machine, card is not None),)),
    )
    lacking = {need: why for need, why in sorted(missing.items()) if why}
    return printed(options, [Heading(machine), *_document(rows, lacking, card is not None)], datasets), 0


def _row(name: str, group: list[Variant], card: device.Gpu | None) -> Row:
    """The row of one implementation, whose variants differ by operator and parameters."""
    from softbench.measure.contest.entrant import mode_of

    first = group[0]
    operators = tuple(dict.fromkeys(variant.operator for variant in group))
    points = len({variant.params for variant in group})
    here = {"measure": "yes", "interpret": "checked", "compile": "compiled"}.get(mode_of(first, card)[0], "no")
    return Row(name, first.family, operators, points, first.ladder, first.requires, here)


def _document(rows: Sequence[Row], lacking: Mapping[str, str], has_gpu: bool) -> Document:
    able = sum(row.here == "yes" for row in rows)
    text = f"{plural(len(rows), 'implementation')}; this machine meets the requirements of {able}."
    if not has_gpu:
        text += " Without a GPU Triton kernels are checked in its interpreter, and kernels with cubins are compiled."
    header = ("implementation", "family", "operators", "variants", "takes part", "requires", "here")
    listed = table("", header, [_texts(row, lacking) for row in rows], left=(0, 1, 2, 4, 5, 6))
    return [*lines(text), *listed, *table("✗ missing here", ("requirement", "why"), list(lacking.items()), left=(0, 1))]


def _texts(row: Row, lacking: Mapping[str, str]) -> tuple[str, ...]:
    needs = ", ".join(f"✗ {need}" if need in lacking else need for need in row.requires)
    takes_part = "when named" if row.only_if_named else "always"
    names = (short(row.implementation), short(row.family), some(row.operators))
    return (*names, str(row.variants), takes_part, needs, row.here)


COMMAND = Command(
    "list",
    "list the implementations, their requirements, and whether this machine meets them",
    (("softbench list", "those that come with softbench"), ("softbench list --impls kernels", "and those of your own folder")),
    (folders("further folder of implementation files"), FORMAT),
    _run,
)
