"""Inputs on the device "meta" lie as real ones do, and have no values."""

from pathlib import Path

import pytest
from support.grids import over

from softbench.cases import operators
from softbench.cases.operators.streams import Stream
from softbench.model import Case

torch = pytest.importorskip("torch")
LAYOUTS = ("contiguous", "offset1", "padded8", "strided2", "transposed", "broadcast")
SHAPES = ((3, 5, 8), (0, 4))


def lies(x):
    return x.shape, x.stride(), x.storage_offset(), x.dtype, x.untyped_storage().nbytes()


def layouts(operator, case, device):
    try:
        inputs = operator.make_inputs(case, device, 1)
    except ValueError as error:
        return str(error)
    assert {x.device.type for x in inputs} == {device}
    return [lies(x) for x in inputs]


def of_file():
    reads = (Stream("x"), Stream("scale", "columns", "float32", 1.0, 0.1), Stream("at", "rows"))
    return operators.FileOperator("mine", Path("mine.py"), "mine.py:1", "", "", reads, (Stream("y"),), "softmax")


@over("name", (*operators.OPERATORS, "mine"))
@over("layout", LAYOUTS)
@over("distribution", ("normal", "drawn_7"))
def test_layouts_are_those_of_real_inputs(name, layout, distribution):
    operator = of_file() if name == "mine" else operators.get(name)
    for shape in ((2, 3, 4, 8),) if "attention" in name else SHAPES:
        case = Case(name, shape, "float16", "float16", layout=layout, distribution=distribution)
        assert layouts(operator, case, "meta") == layouts(operator, case, "cpu")
