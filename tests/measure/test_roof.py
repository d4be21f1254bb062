import re
from itertools import product
from pathlib import Path

import pytest
import torch
from support.grids import over
from support.interpreted import PRELUDE, interpreted
from support.sass import sass

from softbench import Unsupported
from softbench.cases import operators
from softbench.cases.operators.outputs import as_tuple
from softbench.measure import roof
from softbench.measure.roof import host
from softbench.measure.worker.loading import load
from softbench.model import Case

MIXES = {"softmax": (1, 1), "softmax_backward": (2, 1), "add_rmsnorm": (2, 2)}
SHAPE = (600, 400)
STREAMS = Path(roof.__file__).parent / "streams.py"


def case(name, shape=(6, 40), dtype="float16", **words):
    return Case(name, shape, dtype, words.pop("out_dtype", dtype), **words)


def right(name, a, b):
    a, b = (x.contiguous().view(torch.int16) for x in (a, b))
    made = a if name == "softmax" else a ^ b
    return tuple(made.clone().view(torch.float16) for _ in range(MIXES[name][1]))


def pair():
    torch.manual_seed(3)
    return torch.randn(SHAPE).half(), torch.randn(SHAPE).half()


def test_every_set_has_kernels_for_both_kinds_of_device():
    assert roof.SETS == ("copy", "streams", "roofline")
    assert len(roof.variants("roofline", "cuda")) == len(roof.roofline.SIDES)
    assert len(roof.variants("roofline", "cpu")) == 1
    for name in ("copy", "streams"):
        assert len(roof.variants(name, "cpu")) == 1
        assert [(v.operator, v.has_cubins) for v in roof.variants(name, "cuda")] == [(name, True)] * 6


@over("name", operators.ROW_OPERATORS)
def test_an_operators_roof_takes_its_inputs(name):
    """And moves no more than the operator, up to a weight and a figure a row."""
    operator = operators.get(name)
    streams = 2 + 2 * name.startswith("add_") + (name == "softmax_backward")
    for shape, layout in (((6, 40), "contiguous"), ((5, 33), "transposed"), ((3, 4, 7), "padded-3")):
        for dtype, out in product(("bfloat16", "float32", "float64"), repeat=2):
            asked = Case(name, shape, dtype, out, layout)
            inputs = operator.make_inputs(asked, "cpu", 1)
            outputs = as_tuple(getattr(host, f"host_{operator.roof}")(asked)(*inputs))
            assert roof.verify(operator.roof, inputs, outputs, asked) == ""
            written = outputs[: streams // 2]
            for y in written:
                wrong = tuple(torch.zeros_like(x) if x is y else x for x in outputs)
                assert "not made of what was read" in roof.verify(operator.roof, inputs, wrong, asked)
            moved = sum(x.nbytes for x in (*inputs, *written) if x.shape == shape)
            assert dtype != out or moved == streams * inputs[0].nbytes
            row_figures = 2 * (asked.rows + asked.columns) * 8
            assert moved <= operator.ideal_bytes(asked) <= moved + row_figures


@over("name", MIXES)
def test_verify_rejects_what_was_not_moved(name):
    a, b = pair()
    made = right(name, a, b)

    def said(*outputs):
        return roof.verify(operators.get(name).roof, (a, b), outputs, case(name, SHAPE))

    assert said(*made) == ""
    words = "not made of what was read"
    assert words in said(*(torch.zeros_like(y) for y in made))
    assert words in said(*(y[:5] for y in made))
    assert "outputs where" in said(*made, a)
    for number in range(MIXES[name][1]):
        outputs = right(name, a, b)
        outputs[number][5, 39] = 7
        assert words in said(*outputs)


def test_refusals():
    with pytest.raises(ValueError, match=r"'fill'.*copy"):
        roof.verify("fill", pair()[:1], pair()[0], case("softmax"))
    for name in MIXES:
        factory = load(STREAMS, operators.get(name).roof)
        with pytest.raises(Unsupported, match="strided-2"):
            factory(case(name, layout="strided-2"), 128, "plain")


INTERPRETED = """
from itertools import product
from softbench.measure import roof
factory = load(Path(roof.__file__).parent / "roofline.py", "roofline")
for side in (1024, 8192):
    case = Case("attention", (2, 3, 1, 64), "float16", "float16", "keys-77")
    q, k = torch.randn(2, 3, 1, 64).half(), torch.randn(2, 3, 77, 64).half()
    copies = factory(case, side)(q, k, k)
    assert len(copies) == 2 and roof.verify("roofline", (q, k, k), copies, case) == "", side
from softbench.cases import operators
from softbench.cases.operators.outputs import as_tuple
for name in operators.ROW_OPERATORS:
    operator = operators.get(name)
    factory = load(Path(roof.__file__).parent / "streams.py", operator.roof)
    for shape, dtype in (((4099,), "float32"), ((33, 2), "float16"), ((3, 341), "float16"), ((0, 4), "float32"),
                         ((1,), "float64"), ((64, 128), "bfloat16")):
        for out, threads, hint in product({dtype, "float16", "float64"}, (128, 512), ("plain", "evict_first")):
            case = Case(name, shape, dtype, out)
            inputs = operator.make_inputs(case, "cpu", 1)
            outputs = as_tuple(factory(case, threads, hint)(*inputs))
            assert case.elements == 0 or inputs[0].data_ptr() not in [y.data_ptr() for y in outputs]
            assert roof._any.fault(inputs, outputs, case, is_folded=True) == "", (case.id, threads, hint)
    case = Case(name, (3, 6, 40), "float32", "float32", "transposed")
    inputs = operator.make_inputs(case, "cpu", 1)
    outputs = as_tuple(factory(case, 128, "plain")(*inputs))
    assert roof._any.fault(inputs, outputs, case, is_folded=True) == "", name
"""


@over("dtype", ["float16", "float32"])
def test_streams_of_any_length_move_in_vectors(dtype):
    """With a mask that may end within a vector, float16 of odd length was moved at a third of the speed."""
    pytest.importorskip("triton")
    factory = load(STREAMS, "copy")
    for columns in (8192, 8191):
        ((_, code),) = factory.softbench_cubins(case("softmax", (8191, columns), dtype), 128, "plain")
        assert re.search(r"LDG\.E\S*\.128", sass(code)[0]), columns


def test_the_kernels_in_the_interpreter(tmp_path):
    """float16 of odd length has 2-byte words, 4099 int32 words leave a partial block; norms read weights."""
    pytest.importorskip("triton")
    interpreted(tmp_path, PRELUDE + INTERPRETED)


@over("name, rows, places", [("layernorm", 199, (1, 2)), ("layernorm", 201, ()), ("add_rmsnorm", 49, (2,))])
def test_what_has_another_shape_is_moved_if_it_is_much(name, rows, places):
    asked = case(name, (rows, 4096))
    operator = operators.get(name)
    inputs = operator.make_inputs(asked, "cpu", 1)
    outputs = as_tuple(getattr(host, f"host_{operator.roof}")(asked)(*inputs))
    assert len(outputs) == 1 + name.startswith("add_") + bool(places)
    assert roof.verify(operator.roof, inputs, outputs, asked) == ""
    for place in places:
        changed = tuple(x + 1 if n == place else x for n, x in enumerate(inputs))
        assert "read alone was" in roof.verify(operator.roof, changed, outputs, asked)
