"""Errors of right outputs, measured by the check."""

import pytest
import torch

from softbench.cases.operators import Expected, get
from softbench.measure.check import accuracy, check
from softbench.measure.check.accuracy import Errors
from softbench.model import Case


def case(dtype="float32", shape=(64, 512), **words):
    return Case("softmax", shape, dtype, dtype, **words)


def off(own, share, every=1):
    """Of a launch whose every `every`-th element is off by a share of its bound, to alternate sides if < 0."""

    def launch(x):
        (expected,) = get("softmax").expected(own, (x,), slice(0, own.rows), "cpu")
        error = expected.allowed * abs(share)
        error[:, torch.arange(own.columns) % every > 0] = 0
        if share < 0:
            error[1::2] *= -1
        return expected.values + error

    return check(own, launch, "cpu", 3).accuracy


def test_known_errors_give_largest_percentile_and_bias():
    own = case("float64")
    one_sided, two_sided, rare = off(own, 0.4), off(own, -0.4), off(own, 0.4, every=256)
    near = pytest.approx(0.4, abs=1e-2)
    assert one_sided.elements == own.elements
    assert (one_sided.largest, one_sided.p99, one_sided.bias) == (near, near, near)
    assert (two_sided.largest, two_sided.bias) == (near, pytest.approx(0, abs=1e-2))
    assert (rare.largest, rare.bias) == (near, pytest.approx(0.4 / 256, abs=1e-2))
    assert rare.p99 < 0.1


@pytest.mark.parametrize(("dtype", "most"), [("float16", 0.5), ("bfloat16", 0.5), ("float32", 0.3)])
def test_one_rounding_is_within_half_of_the_bound(dtype, most):
    found = check(case(dtype), lambda x: torch.softmax(x, -1), "cpu", 3).accuracy
    assert 0.05 < found.p99 <= found.largest <= most
    assert abs(found.bias) < 0.02


def test_unbounded_elements_and_wrong_outputs_have_no_errors():
    masked = check(case(distribution="causal_inf", timed=False, shape=(64, 64)), lambda x: x.softmax(-1), "cpu", 3)
    assert 0 < masked.accuracy.elements < 64 * 64
    assert check(case(), torch.zeros_like, "cpu", 3).accuracy is None
    errors, exact = Errors(3), torch.tensor([[1.0, float("inf"), float("nan")]], dtype=torch.float64)
    assert errors.found() is None
    errors.add(Expected(exact, exact, torch.zeros_like(exact)), exact.float())
    assert errors.found() is None


def test_of_many_elements_some_blocks_are_measured(monkeypatch):
    """A 32nd of them here, and the first of any."""
    monkeypatch.setattr(accuracy, "MOST_ELEMENTS", 1000)
    errors, exact = Errors(32_000), torch.ones(1, 100, dtype=torch.float64)
    for _ in range(320):
        errors.add(Expected(exact, exact, torch.full_like(exact, 0.1)), exact.float())
    assert 200 <= errors.found().elements <= 3000
