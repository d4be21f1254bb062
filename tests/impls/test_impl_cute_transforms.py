"""softbench.kernels where torch follows each operator: forward mode, many gradients at a time."""

import pytest
from support.kernel_stand_ins import either_of_them, seen_by_them  # noqa: F401 -- fixtures

pytest.importorskip("torch")
import torch
from torch.autograd import forward_ad

from impls.cute import _layouts, _plans
from softbench import kernels
from softbench.model import Case

pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{what}")
    for what in (":softbench.kernels.KernelFallback", ".*vmap:UserWarning", ".*torch.jit:DeprecationWarning")
]
WEIGHT = torch.rand(6, generator=torch.Generator().manual_seed(1)) + 0.5


def plain_norm(t):
    return torch.layer_norm(t, (6,), WEIGHT, eps=1e-5)


def norm(t):
    return kernels.layer_norm(t, WEIGHT)


PAIRS = [(kernels.softmax, lambda t: torch.softmax(t, -1)), (norm, plain_norm)]


@pytest.fixture
def x():
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(2))


@pytest.mark.usefixtures("seen")
@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=["softmax", "norm"])
def test_tangents_are_followed(monkeypatch, x, ours, theirs):
    """A call like one before takes no shortcut; that torch serves it then, `test_impl_cute_refusals.py` holds."""
    ours(x)
    monkeypatch.setattr(kernels, "_by_torch", lambda *given: True)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x.cos())
        found, right = (forward_ad.unpack_dual(f(dual)).tangent for f in (ours, theirs))
    torch.testing.assert_close(found, right)


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=["softmax", "norm"])
def test_many_gradients_at_a_time(x, ours, theirs):
    many = torch.randn(3, 4, 6)
    for follow in (batches, vmapped):
        found, right = (follow(f, x.clone().requires_grad_(), many) for f in (ours, theirs))
        torch.testing.assert_close(found, right)


def batches(function, x, many):
    return torch.autograd.grad(function(x), x, many, is_grads_batched=True)[0]


def vmapped(function, x, many):
    y = function(x)
    return torch.func.vmap(lambda dy: torch.autograd.grad(y, x, dy, retain_graph=True)[0])(many)


@pytest.mark.usefixtures("either")
def test_a_bias_for_each_head_that_is_frozen():
    x, bias = torch.randn(5, 4, 6, requires_grad=True), torch.randn(4, 6)
    dy = torch.randn(5, 4, 6)
    (found,) = torch.autograd.grad(kernels.rms_norm(x, None, bias), x, dy)
    (right,) = torch.autograd.grad(torch.rms_norm(x, (6,), eps=1e-6) + bias, x, dy)
    torch.testing.assert_close(found, right)


def test_what_32_bits_do_not_count_is_not_dense():
    below, above = (torch.empty(rows, 1_000_001, dtype=torch.float16, device="meta") for rows in (2147, 2148))
    assert _layouts.dense(1_000_001, below, below)
    assert not _layouts.dense(1_000_001, above)
    for rows in (2147, 2148):
        (first, *_) = _plans.of_case(Case("softmax", (rows, 1_000_001), "float16", "float16"), _layouts.HOPPER, False)
        assert first.is_dense == (rows == 2147)


def test_rows_that_no_layout_counts_are_torchs():
    assert not any(_plans.softmax(2**30 + 8, "float16", "float16", _layouts.HOPPER, True))
    assert not any(_plans.softmax_backward(4_194_304, "float16", "float16", _layouts.HOPPER, False))
    assert any(_plans.softmax(2**30, "float16", "float16", _layouts.HOPPER, True))
