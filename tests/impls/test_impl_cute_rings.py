"""The kernels of impls/cute that split rows over CTAs and crews, thread by thread, against their operators."""

import itertools
from dataclasses import replace

import pytest
from support.settled import every

from impls.cute.htile.crews import SplitTileConfig

pytest.importorskip("torch")
pytest.importorskip("numpy")
import numpy as np
import torch
from support import depths
from support import emulated_split as emulated
from support.emulated_memory import tensor, values
from support.lined import PartsOfLines, RingOfLines

from impls.cute._plans import norm_kind
from impls.cute.htile.parts import PartTileConfig
from softbench.cases import operators
from softbench.measure.check import compare
from softbench.model import Case


class RingOfPieces(SplitTileConfig):
    pieces = 3  # the last of the last CTA's share is empty


class OfManyVectors(SplitTileConfig):
    keeps = False  # its exponentials


RINGS = [
    SplitTileConfig(531, 2, 2, 64, 4, aligned=False, crews=2),
    SplitTileConfig(149, 4, 3, 128, 5, 2, aligned=False, groups=2, crews=2),  # teams
    SplitTileConfig(264, 2, 1, 192, 4, groups=3, crews=3),
    SplitTileConfig(420, 4, 3, 128, 4, groups=2),
    RingOfLines(531, 2, 2, 64, 4, aligned=False, crews=2),
    RingOfLines(264, 2, 1, 192, 4, groups=3, crews=3),
    RingOfPieces(531, 2, 2, 64, 4, aligned=False),
    SplitTileConfig(803, 2, 1, 64, 4, aligned=False, crews=2, alike=True),
    RingOfLines(1203, 2, 2, 64, 4, aligned=False, alike=True),
]
CLUSTERS = [  # that claim rows
    (RingOfLines(531, 2, 2, 64, 2, aligned=False, crews=2, clustered=True), "layernorm"),
    (SplitTileConfig(420, 4, 2, 128, 3, groups=2, crews=2, clustered=True), "rmsnorm"),
    (SplitTileConfig(149, 4, 3, 64, 3, aligned=False, crews=1, clustered=True), "layernorm"),
    (RingOfLines(1203, 2, 2, 64, 3, aligned=False, crews=2, clustered=True, alike=True), "layernorm"),
]
HELD = [  # in registers
    SplitTileConfig(531, 2, 2, 32, 1, aligned=False, crews=2),
    SplitTileConfig(420, 4, 3, 64, 1, 2, crews=3),  # teams
    OfManyVectors(531, 2, 2, 32, 1, aligned=False, crews=2),
    SplitTileConfig(149, 4, 3, 32, 1, 2, aligned=False),
    RingOfLines(149, 4, 3, 32, 1, 2, aligned=False),
    SplitTileConfig(1203, 2, 2, 32, 1, aligned=False, crews=2, alike=True),
]
PARTS = [  # in clusters
    PartTileConfig(819, 2, 2, 64, 64, aligned=False, parts=2),
    PartTileConfig(420, 4, 2, 32, 32, parts=3),
    PartTileConfig(1003, 4, 2, 32, 32, aligned=False, parts=7),
    PartsOfLines(1004, 4, 2, 32, 32, parts=7),
]
OPERATORS = ("softmax", "softmax_backward", "rmsnorm", "layernorm")
DTYPES = {2: "bfloat16", 4: "float32"}


def computed(case, config, launches):
    """The outputs of launches with one workspace, each with its inputs, of a kernel with this layout.

    Rows of the output start elsewhere than those of the inputs, if they may.
    """
    words, pad, launch = emulated.workspace(config), 8 * config.aligned, emulated.launch
    found = []
    with emulated.family() as family:
        for inputs in launches:
            given = [tensor(x.float(), case.dtype, pad * (x.dim() > 1)) for x in inputs]
            y = tensor(np.full(inputs[0].shape, np.nan), case.dtype, pad or int(not config.alike))
            arguments = [*given, y, words]
            if case.operator.endswith("norm"):  # x, weight, bias, y, rstd, mean
                kernel = family("kernels.split_norm").SplitNorm(config, *norm_kind(case)).kernel
                arguments = [*given, *[None] * (3 - len(given)), y, None, None, words]
            elif isinstance(config, PartTileConfig):
                kernel, launch = family("kernels.parts").Softmax(config).kernel, emulated.launch_parts
            elif case.operator == "softmax":
                kernels = family("kernels.split_softmax").SplitSoftmax(config)
                kernel = kernels.flowing if config.is_ring else kernels.alone
            else:
                kernel = family("kernels.split_softmax_backward").SplitSoftmaxBackward(config).kernel
            launch(kernel, config, *arguments)
            found.append(torch.from_numpy(values(y)).to(getattr(torch, case.dtype)))
    return found


@every(("config", "operator", "rows"), itertools.product(RINGS, OPERATORS, (1, 5)))
def test_rows_through_a_ring(config, operator, rows):
    terms, tiles = {"rmsnorm": 1, "layernorm": 2}.get(operator, 0), 1 + operator.endswith("backward")
    config = replace(config, terms=terms, tiles=tiles)
    case = Case(operator, (rows, config.columns), DTYPES[config.itemsize], DTYPES[config.itemsize])
    launches = [operators.get(operator).make_inputs(case, "cpu", seed) for seed in (1, 2)]
    for inputs, found in zip(launches, computed(case, config, launches), strict=True):
        assert not compare(case, inputs, (found,)).reason


@every(("config", "operator"), CLUSTERS)
def test_rows_that_clusters_claim(config, operator):
    """Fewer than there are clusters, and more than one has places for; each launch counts from zero."""
    config = replace(config, terms=1 + (operator == "layernorm"))
    cases = [Case(operator, (n, config.columns), *[DTYPES[config.itemsize]] * 2) for n in (1, config.claims + 3)]
    launches = [operators.get(operator).make_inputs(case, "cpu", case.rows) for case in cases]
    for case, inputs, found in zip(cases, launches, computed(cases[0], config, launches), strict=True):
        assert not compare(case, inputs, (found,)).reason


@every("config", HELD + PARTS)
def test_rows_in_registers(config):
    """More rows than crews, one far below its peak, and all crews again, whose tags have come apart; or as many as have lines."""
    rows = (config.most_rows, 1, config.most_rows) if config in PARTS else (5, 1, 3)
    cases = [Case("softmax", (n, config.columns), DTYPES[config.itemsize], DTYPES[config.itemsize]) for n in rows]
    launches = [operators.get("softmax").make_inputs(case, "cpu", case.rows) for case in cases]
    launches[1][0][0], launches[2][0][0, : config.columns // 2] = depths.peaks(config.columns, 8)[5], -torch.inf
    for case, inputs, found in zip(cases, launches, computed(cases[0], config, launches), strict=True):
        assert not compare(case, inputs, (found,)).reason
