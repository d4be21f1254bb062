"""The kernels of impls/cute that split rows over CTAs and crews, thread by thread, against their operators."""

import itertools
from dataclasses import replace

import pytest
from support.settled import every

pytest.importorskip("torch")
pytest.importorskip("numpy")
import numpy as np
import torch
from support import emulated_split as emulated
from support.emulated_memory import tensor, values

from impls.cute._plans import norm_kind
from impls.cute.htile.config import SplitTileConfig
from softbench.cases import operators
from softbench.measure.check import compare
from softbench.model import Case

RINGS = [
    SplitTileConfig(531, 2, 2, 64, 4, aligned=False, crews=2),
    SplitTileConfig(149, 4, 3, 128, 5, 2, aligned=False, groups=2, crews=2),  # teams
    SplitTileConfig(264, 2, 1, 192, 4, groups=3, crews=3),
    SplitTileConfig(420, 4, 3, 128, 4, groups=2),
]
OPERATORS = ("softmax", "softmax_backward", "rmsnorm", "layernorm")
DTYPES = {2: "bfloat16", 4: "float32"}


def computed(case, config, launches):
    """The outputs of launches with one workspace, each with its inputs, of a kernel with this layout."""
    words, pad = emulated.workspace(config), 8 * config.aligned
    empty, found = np.full((case.rows, case.columns), np.nan), []
    with emulated.family() as family:
        for inputs in launches:
            given = [tensor(x.float(), case.dtype, pad * (x.dim() > 1)) for x in inputs]
            y = tensor(empty, case.dtype, pad)
            arguments = [*given, y, words]
            if case.operator.endswith("norm"):  # x, weight, bias, y, rstd, mean
                kernel = family("kernels.split_norm").SplitNorm(config, *norm_kind(case)).kernel
                arguments = [*given, *[None] * (3 - len(given)), y, None, None, words]
            elif case.operator == "softmax":
                kernel = family("kernels.split_softmax").SplitSoftmax(config).flowing
            else:
                kernel = family("kernels.split_softmax_backward").SplitSoftmaxBackward(config).kernel
            emulated.launch(kernel, config, *arguments)
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
