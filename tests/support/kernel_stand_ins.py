"""Stand-ins for the kernels of impls/cute on a CPU, as fixtures."""

import pytest

from softbench import kernels

pytest.importorskip("torch")
import torch
from _softbench_kernels import _functions, _launch, _norm_backward, _norm_functions


@pytest.fixture(name="seen")
def seen_by_them(monkeypatch):
    """CPU tensors pass, and kernels are stand-ins in float64; yields the shapes of the matrices that they were given."""
    seen = []

    def note(*matrices):
        assert all(m.dim() == 2 and m.stride(1) == 1 for m in matrices)
        assert matrices[-1].is_contiguous()
        seen.append(tuple(matrices[0].shape))

    def side_rows(columns, dtypes, length, place, device):
        def launch(x, y):
            note(x, y)
            y.copy_(torch.softmax(x.double().view(-1, length, columns), 1).view_as(y))

        return launch

    def softmax_rows(columns, dtypes, device):
        return lambda x: side_rows(1, dtypes, columns, 0, device)

    def backward_rows(columns, dtypes, device):
        def launch(dy, y, dx):
            note(dy, y, dx)
            assert kinds((dy, y, dx)) == (dtypes[0], *dtypes)
            dx.copy_((dy - (dy * y).sum(1, keepdim=True)) * y)

        return launch

    def kinds(tensors):
        return tuple(None if t is None else t.dtype for t in tensors)

    def per_row(vector, x):
        """A weight for each head, as a matrix like x."""
        assert vector is None or vector.is_contiguous()
        return vector if vector is None or vector.dim() == 1 else vector.repeat(len(x) // len(vector), 1)

    def norm_rows(columns, dtypes, layer, eps, heads, device):
        def launch(*tensors):
            note(*filter(torch.is_tensor, (tensors[0], *tensors[3:5])))
            assert kinds(tensors) == dtypes
            x, weight, bias, *rest = tensors
            assert heads == any(t is not None and t.dim() > 1 for t in (weight, bias))
            _norm_functions.compose(x, per_row(weight, x), per_row(bias, x), *rest, layer=layer, eps=eps)

        return lambda *inputs: launch

    def norm_backward_rows(columns, dtypes, layer, heads, eps, device):
        def launch(dy, t, weight, of_total, rstd, mean, *outputs):
            *outputs, count = outputs
            note(*filter(torch.is_tensor, (t, dy, of_total, outputs[1], outputs[0])))
            assert kinds((dy, t, weight, of_total, rstd, mean, *outputs)) == dtypes
            assert heads == (count > 1)
            centre, scale = _norm_backward.statistics_of(t.double(), rstd, mean, eps)
            given = dy.double(), t.double(), per_row(weight, t), None, of_total, centre, scale, layer
            right = _norm_functions.gradients(*given)[0]
            vectors = [m.view(-1, count, columns).sum(0) for m in (dy.double() * (t - centre) * scale, dy.double())]
            for place, got in zip(outputs, [right, right, *vectors], strict=True):
                _ = place is None or place.copy_(got.sum_to_size(place.shape))
            return True

        return launch

    for stub in (softmax_rows, side_rows, backward_rows, norm_rows):
        monkeypatch.setattr(_launch, stub.__name__, stub)
    monkeypatch.setattr(_norm_backward, "backward_rows", norm_backward_rows)
    _functions.served.cache_clear()
    monkeypatch.setattr(kernels, "_by_torch", lambda why, *given: bool(why))
    monkeypatch.setattr(_functions, "_empty", torch._C._dynamo.guards._empty_strided_cpu)
    monkeypatch.setattr(_functions, "_current", lambda: None)
    monkeypatch.setattr(_functions, "_latest", _functions._latest)
    for module in (_functions, _norm_functions):
        monkeypatch.setattr(module, "require", lambda *given: None)
        monkeypatch.setattr(module, "_again", {})
        monkeypatch.setitem(kernels._shortcuts, module.__name__.split(".")[-1], module.again)
    return seen


@pytest.fixture(name="either", params=["torch", "kernels"])
def either_of_them(request):
    """False where torch serves a test."""
    return request.param == "kernels" and request.getfixturevalue("seen")
