"""Row-wise CuTe kernels of impls/cute on a CPU: numpy stands for the DSL, and one call computes one row.

What is replaced is how a row comes to its threads and to memory (`Context`, `Loader`, `Storer`, `Reduction`) and the DSL under
the rest: a number of a thread is an array over all threads of the row, a vector one more dimension in front. It holds the
kernels to their arithmetic, with the hardware's flushing of small numbers; not to addresses, and not to what is a GPU's own.
"""

import contextlib
import importlib
import math
import sys
from types import MappingProxyType, ModuleType, SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import torch

from support.paths import ROOT

FOLDER = ROOT / "impls" / "cute"
PACKAGE = "_emulated_cute"
WARP = 32
SMALLEST_NORMAL = np.float32(2.0**-126)


class Numbers(np.ndarray):
    """float32 (threads,), or (vector, threads) in the place of a TensorSSA or of a tensor in registers."""

    def reduce(self, operation, start, _):
        for values in self:
            start = operation(start, values)
        return numbers(start)

    def load(self):
        return self.copy()

    def store(self, values):
        self[...] = values

    def fill(self, value):
        self[...] = value

    def to(self, _):
        return self


def numbers(values):
    return np.asarray(values, dtype=np.float32).view(Numbers)


class Dtype:
    """Its name and its width, as the DSL's; called it makes a number."""

    inf = math.inf

    def __init__(self, name, width):
        self.name, self.width = name, width

    def __call__(self, value):
        return numbers(value)


FLOAT32, FLOAT16, BFLOAT16 = Dtype("float32", 32), Dtype("float16", 16), Dtype("bfloat16", 16)
DTYPES = {dtype.name: dtype for dtype in (FLOAT32, FLOAT16, BFLOAT16)}


def flushed(x):
    """With 0 in the place of subnormals."""
    return numbers(np.where(np.abs(x) < SMALLEST_NORMAL, np.copysign(np.float32(0), x), x))


def exp2(x, approx, ftz):
    """ex2.approx with .ftz or without, rounded to nearest."""
    assert approx
    power = numbers(np.exp2(np.float64(flushed(x) if ftz else x)))
    return flushed(power) if ftz else power


def rcp_approx(x):
    """rcp.approx.ftz"""
    return flushed(1 / np.float64(flushed(x)))


def warp_reduction(value, operation, threads_in_group):
    """Butterflies over neighbouring threads."""
    threads = np.arange(len(value))
    step = threads_in_group // 2
    while step:
        value = operation(value, value[threads ^ step])
        step //= 2
    return numbers(value)


def _fmax(a, b, nan=False):
    return numbers((np.maximum if nan else np.fmax)(a, np.float32(b)))


class Cutlass(ModuleType):
    """Whatever else of the DSL a module names when it is imported."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock()


@contextlib.contextmanager
def standing_in(dsl):
    """Modules in the place of the DSL's, for a package PACKAGE of the files of impls/cute."""
    before, package = dict(sys.modules), ModuleType(PACKAGE)
    package.__path__ = [str(FOLDER)]
    sys.modules.update({**dsl, PACKAGE: package})
    try:
        yield
    finally:
        for name in [n for n in sys.modules if n.split(".")[0] in ("cutlass", PACKAGE)]:
            del sys.modules[name]
        sys.modules.update({n: m for n, m in before.items() if n.split(".")[0] == "cutlass"})


def _dsl(threads):
    def rmem(shape, _):
        return numbers(np.zeros((shape, threads) if isinstance(shape, int) else shape))

    cute, cutlass, nvgpu = Cutlass("cutlass.cute"), Cutlass("cutlass"), Cutlass("cutlass.cute.nvgpu")
    vars(cutlass).update(
        cute=cute, Float32=FLOAT32, Float16=FLOAT16, BFloat16=BFLOAT16, const_expr=lambda x: x, range_constexpr=range
    )
    vars(cutlass).update(range=lambda n, **_: range(n), select_=lambda where, a, b: numbers(np.where(where, a, b)))
    vars(cute).update(
        jit=lambda function: function,
        kernel=lambda function: function,
        nvgpu=nvgpu,
        ReductionOp=SimpleNamespace(MAX=np.maximum, ADD=np.add),
        arch=SimpleNamespace(
            fmax=_fmax,
            rcp_approx=rcp_approx,
            warp_reduction=warp_reduction,
            griddepcontrol_launch_dependents=lambda: None,
            griddepcontrol_wait=lambda: None,
        ),
        math=SimpleNamespace(
            exp2=exp2,
            log=lambda x, **_: numbers(np.log(np.float64(x))),
            rsqrt=lambda x, **_: numbers(1 / np.sqrt(np.float64(x))),
        ),
        make_rmem_tensor=rmem,
        size=lambda x: (x if isinstance(x, tuple) else x.shape)[0],
    )
    return {"cutlass": cutlass, "cutlass.cute": cute, "cutlass.cute.nvgpu": nvgpu}


class Tile:
    """A thread's vectors, by their number."""

    def __init__(self, values):
        self.tile = list(numbers(values))

    def vector(self, turn):
        return self.tile[turn]

    def values(self, turn, convert=False):
        return self.tile[turn].copy()

    values_again = again = values

    def request(self):
        pass

    wait = request


class Reduction:
    """The exchanges of one row's warps."""

    def __init__(self, config):
        self.config, self.threads = config, config.threads_per_row * config.cluster
        self.sent = {}
        self.reach = min(WARP, 1 << (config.peers - 1).bit_length())

    def exchange(self, values, stage):
        self.sent[stage] = [np.broadcast_to(value, self.threads) for value in values]

    send = exchange

    def receive(self, stage):
        assert stage in self.sent

    def gather(self, which, stage, absent):
        slots = self.sent[stage][which][:: self.config.group]
        turns = -(-len(slots) // self.reach)
        padded = np.full(turns * self.reach, absent, dtype=np.float32)
        padded[: len(slots)] = slots
        lanes = np.arange(self.threads) % self.reach
        return numbers(padded.reshape(turns, self.reach)[:, lanes])


class Context:
    """All threads of one row; matrices are pairs of a row's float32 values and a dtype."""

    def __init__(
        self, config, x, fill=0.0, stage=1, width=1, extra_smem_tensors=0,
        extra_dtype=None,
    ):  # fmt: skip
        self.config, self.fill, self.extra_sX = config, fill, [None] * extra_smem_tensors
        self.reduction = Reduction(self.config)
        self.x = Loader(self, x)

    def make_fragment(self, _):
        config = self.config
        return Tile(np.zeros((config.vectors_per_thread, config.vector, config.cluster * config.threads_per_row)))

    @property
    def columns(self):
        """The column of each element: (turn, vector, thread); the row's length where it has none."""
        config = self.config
        turn, element, cta, thread = np.ogrid[
            : config.vectors_per_thread, : config.vector, : config.cluster, : config.threads_per_row
        ]
        vector = turn * config.threads_per_row + thread
        column = (cta * config.cta_vectors + vector) * config.vector + element
        column = np.where((vector < config.cta_vectors) & (column < config.columns), column, config.columns)
        return column.reshape(*column.shape[:2], -1)

    def masked(self, turn, values, absent=0.0):
        return numbers(np.where(self.columns[turn] < self.config.columns, values, absent))

    def store_row(self, vector, value):
        """Every thread of a row has the same value."""
        assert np.array_equal(value, np.full_like(value, value[0]), equal_nan=True)
        vector.values[:] = value[0]


class Loader(Tile):
    def __init__(self, context, matrix, _=None):
        super().__init__(np.append(matrix.values, np.float32(context.fill))[context.columns])


class ColumnLoader(Loader):
    def __init__(self, context, vector, delayed=False):
        super().__init__(context, vector)


class Storer:
    def __init__(self, context, matrix):
        self.columns, self.matrix, self.dtype = context.columns, matrix, matrix.element_type

    def store(self, turn, values):
        column = self.columns[turn]
        inside = column < len(self.matrix.values)
        self.matrix.values[column[inside]] = np.asarray(values)[inside]


def matrix(dtype, values):
    """A row in the place of a matrix."""
    return SimpleNamespace(element_type=DTYPES[dtype], values=np.array(values, dtype=np.float32))


def norm_arguments(operator, given, made):
    """(x, weight, bias, residual, y, residual_out, rstd, mean)."""
    adds, layer = operator.startswith("add_"), operator.endswith("layernorm")
    columns = given[1 + adds :]
    residual, bias = given[1] if adds else None, columns[1] if layer else None
    return given[0], columns[0], bias, residual, *made, *[None] * (4 - len(made))


STAND_INS = {"RowContext": Context, "RowLoader": Loader, "RowStorer": Storer, "ColumnLoader": ColumnLoader}


@contextlib.contextmanager
def family(threads, further=MappingProxyType({})):
    """A function that imports modules of impls/cute, with numpy for the DSL, for rows of so many threads.

    further  stand-ins beside STAND_INS
    """

    def tile(_, width, count):
        return Tile(np.zeros((count, width, threads)))

    def load(name):
        module = importlib.import_module(f"{PACKAGE}.{name}")
        for stood_for, stand_in in {**STAND_INS, **further, "VectorRegTile": tile}.items():
            if hasattr(module, stood_for):
                setattr(module, stood_for, stand_in)
        return module

    with standing_in(_dsl(threads)), np.errstate(all="ignore"):
        yield load


def computed(case, inputs, specs, run):
    """All outputs of a kernel, row by row: `run` gets a row of each input and what stands for the outputs' rows."""
    outputs = [torch.empty(spec.shape, dtype=torch.float32).view(case.rows, -1) for spec in specs]
    for row in range(case.rows):
        given = [matrix(case.dtype, (x if x.dim() == 1 else x[row]).float().numpy()) for x in inputs]
        made = [matrix(spec.dtype, y[row].numpy()) for spec, y in zip(specs, outputs, strict=True)]
        run(*(norm_arguments(case.operator, given, made) if "norm" in case.operator else (*given, *made)))
        for y, found in zip(outputs, made, strict=True):
            y[row] = torch.from_numpy(found.values)
    return tuple(y.view(spec.shape).to(getattr(torch, spec.dtype)) for y, spec in zip(outputs, specs, strict=True))
