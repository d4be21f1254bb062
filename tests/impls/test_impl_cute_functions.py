"""The torch functions of impls/cute on a CPU, with stand-ins for the kernels: shapes, autograd, tracing, what is refused."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import library  # noqa: E402

from impls.cute import _functions, _launch, _norm_functions, norms, softmax  # noqa: E402


@pytest.fixture
def kernels(monkeypatch):
    """CPU tensors pass, and kernels are stand-ins in float64; yields the shapes of the matrices that they were given."""
    seen = []

    def note(*matrices):
        assert all(m.dim() == 2 and m.stride(1) == 1 for m in matrices)
        assert matrices[-1].is_contiguous()
        seen.append(tuple(matrices[0].shape))

    def softmax_rows(columns, dtypes, device):
        def launch(x, y):
            note(x, y)
            y.copy_(torch.softmax(x.double(), 1))

        return launch

    def backward_rows(columns, dtypes, device):
        def launch(dy, y, dx):
            note(dy, y, dx)
            dx.copy_((dy - (dy * y).sum(1, keepdim=True)) * y)

        return launch

    def norm_rows(columns, dtypes, layer, eps, device):
        def launch(*tensors):
            note(*(t for t in (tensors[0], tensors[3], tensors[4]) if t is not None))
            assert tuple(None if t is None else t.dtype for t in tensors) == dtypes
            _norm_functions.compose(*tensors, layer=layer, eps=eps)

        return launch

    monkeypatch.setattr(_launch, "softmax_rows", softmax_rows)
    monkeypatch.setattr(_launch, "backward_rows", backward_rows)
    monkeypatch.setattr(_launch, "norm_rows", norm_rows)
    monkeypatch.setattr(_functions, "checked", lambda x, dim, out_dtype: out_dtype or x.dtype)
    monkeypatch.setattr(_norm_functions, "checked", lambda *tensors: None)
    monkeypatch.setattr(_functions, "_forward_table", {})
    return seen


@pytest.mark.parametrize("shape", [(), (5,), (3, 5), (2, 3, 5), (2, 1, 3, 4), (0, 4), (4, 0), (2, 0, 3), (6, 1)])
@pytest.mark.parametrize("out_dtype", [None, torch.float32])
def test_softmax_of_any_shape_along_any_dimension(kernels, shape, out_dtype):
    x = torch.randn(shape).half()
    for dim in range(-max(1, len(shape)), max(1, len(shape))):
        y = softmax.softmax(x, dim, out_dtype)
        assert y.dtype is (out_dtype or torch.float16)
        assert y.is_contiguous()
        torch.testing.assert_close(y, torch.softmax(x.float(), dim).to(y.dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_views_are_right_and_inputs_are_left_alone(kernels, dtype):
    base = torch.randn(6, 8, 10, dtype=dtype)
    kept = base.clone()
    views = [base[:, 1:, 3:], base.transpose(0, 1), base.permute(2, 0, 1), base[..., ::2], base[:1].expand(4, 8, 10)]
    for x in views:
        y = softmax.softmax(x)
        torch.testing.assert_close(y, torch.softmax(x, -1))
        assert y.is_contiguous()
    assert torch.equal(base, kept)
    assert bool(kernels) == (dtype is torch.float32), "float64 is for a composition of torch's operators"


def test_the_composition_has_torchs_nans(kernels):
    inf, nan = torch.inf, torch.nan
    x = torch.tensor(
        [[-inf] * 3, [0, inf, 1], [nan, -inf, 0], [-inf, -inf, 0], [-1e308, 1e308, 0]], dtype=torch.float64
    )
    torch.testing.assert_close(softmax.softmax(x), torch.softmax(x, -1), equal_nan=True)


def test_gradients_of_softmax(kernels):
    x = torch.randn(3, 4, 5, dtype=torch.float64, requires_grad=True)
    for dim in (-1, 0, 1):
        assert torch.autograd.gradcheck(lambda x, dim=dim: softmax.softmax(x, dim), (x,))
        assert torch.autograd.gradgradcheck(lambda x, dim=dim: softmax.softmax(x, dim), (x,))


@pytest.mark.parametrize(("dtype", "out_dtype"), [("float32", None), ("float16", None), ("float16", "float32")])
def test_gradients_have_the_dtype_of_the_input(kernels, dtype, out_dtype):
    x = torch.randn(4, 6).to(getattr(torch, dtype)).requires_grad_()
    y = softmax.softmax(x, -1, out_dtype and getattr(torch, out_dtype))
    weight = torch.randn(4, 6)
    (y * weight).sum().backward()
    assert x.grad.dtype is x.dtype
    exact = x.detach().double().requires_grad_()
    (torch.softmax(exact, -1) * weight.double()).sum().backward()
    tolerance = 1e-6 if dtype == "float32" else 4e-3
    torch.testing.assert_close(x.grad.double(), exact.grad, rtol=tolerance, atol=tolerance)
    assert kernels == [(4, 6), (4, 6)], "forward and backward are kernels"
    y = y.detach()
    assert softmax.softmax_backward(weight, y).dtype is y.dtype
    assert softmax.softmax_backward(weight, y, dtype=x.dtype).dtype is x.dtype


@pytest.mark.parametrize("function", [norms.rms_norm, norms.layer_norm])
def test_gradients_of_norms(kernels, function):
    x, residual = (torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    weight, bias = (torch.randn(5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    for inputs in ((x,), (x, weight), (x, weight, bias), (x, weight, bias, residual), (x, None, None, residual)):
        assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, (x, weight, bias, residual))
    row = torch.randn(5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(function, (row, weight, bias))


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5), (0, 5), (4, 0)])
def test_norms_of_any_shape(kernels, shape):
    x, residual = torch.randn(shape).bfloat16(), torch.randn(shape).bfloat16()
    weight, bias = torch.randn(shape[-1]), torch.randn(shape[-1])
    total = x.float() + residual.float()
    for function, reference in (
        (norms.rms_norm, lambda t: torch.nn.functional.rms_norm(t, t.shape[-1:], weight, 1e-6) + bias),
        (norms.layer_norm, lambda t: torch.nn.functional.layer_norm(t, t.shape[-1:], weight, bias, 1e-5)),
    ):
        if shape[-1]:
            torch.testing.assert_close(function(x, weight, bias), reference(x.float()).bfloat16())
        y, out = function(x, weight, bias, residual)
        assert y.dtype is out.dtype is torch.bfloat16
        assert torch.equal(out, total.bfloat16())
        if shape[-1]:
            torch.testing.assert_close(y, reference(total).bfloat16())


def test_statistics_are_those_of_the_rows(kernels):
    x, residual = torch.randn(2, 3, 8), torch.randn(2, 3, 8)
    weight = torch.ones(8)
    _, total, rstd, mean = _norm_functions.forward(x, weight, weight, residual, True, 1e-5, True)
    torch.testing.assert_close(mean, total.view(6, 8).mean(1))
    torch.testing.assert_close(rstd, (total.view(6, 8).var(1, correction=0) + 1e-5).rsqrt())
    assert len(_norm_functions.forward(x, weight, None, residual, False, 1e-6, True)) == 3


def test_operators_hold_torchs_rules(kernels):
    x, y = (torch.randn(4, 6, requires_grad=True) for _ in range(2))
    weight = torch.randn(6, requires_grad=True)
    library.opcheck(_functions.softmax_op, (x, 0, None))
    library.opcheck(_functions.softmax_op, (x.detach().half().requires_grad_(), -1, torch.float32))
    library.opcheck(_functions.softmax_backward_op, (x, y, 1, torch.float32))
    library.opcheck(_norm_functions.norm_op, (x, weight, None, y, True, 1e-5))
    library.opcheck(_norm_functions.norm_op, (x, None, weight, None, False, 1e-6))


def test_torch_compile_traces_without_a_break(kernels):
    def composed(x, weight, residual):
        y, total = norms.rms_norm(softmax.softmax(x * 2, 0), weight, None, residual)
        return (norms.layer_norm(y) * total).sum()

    compiled = torch.compile(composed, fullgraph=True, backend="aot_eager")
    inputs = [torch.randn(shape, requires_grad=True) for shape in ((4, 6), (6,), (4, 6))]
    expected = torch.autograd.grad(composed(*inputs), inputs)
    torch.testing.assert_close(torch.autograd.grad(compiled(*inputs), inputs), expected)


def test_eager_calls_do_without_the_operators(kernels, monkeypatch):
    def never(*given):
        raise AssertionError("13 us for nothing")

    monkeypatch.setattr(_functions, "softmax_op", never)
    x = torch.randn(4, 6, requires_grad=True)
    softmax.softmax(x).sum().backward()
    softmax.softmax(x.detach())
    with torch._subclasses.FakeTensorMode(), pytest.raises(AssertionError, match="for nothing"):
        softmax.softmax(torch.empty(4, 6))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: softmax.softmax(torch.zeros(3)), ValueError, "CUDA tensors.* on cpu"),
        (lambda: softmax.softmax_backward(torch.zeros(3), torch.zeros(3)), ValueError, "CUDA tensors.* on cpu"),
        (lambda: norms.rms_norm(torch.zeros(3)), ValueError, "CUDA tensors.* on cpu"),
        (lambda: norms.layer_norm(torch.zeros(3)), ValueError, "CUDA tensors.* on cpu"),
        (lambda: softmax.softmax(torch.zeros(3, device="meta")), ValueError, "on meta"),
    ],
)
def test_a_tensor_elsewhere_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.fixture
def cuda_tensors():
    """Fake tensors that say they are on a GPU, for checks that come before any kernel."""
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        yield lambda *shape, dtype=torch.float16: torch.empty(shape, dtype=dtype, device="cuda")


def test_wrong_dtypes_and_shapes_are_refused(cuda_tensors):
    x = cuda_tensors(4, 6)
    checked, norm = _functions.checked, _norm_functions.checked
    assert checked(x, 1, None) is torch.float16
    assert checked(x, -2, torch.float32) is torch.float32
    for bad in (2, -3):
        with pytest.raises(IndexError, match=r"\[-2, 1\]"):
            checked(x, bad, None)
    integers = cuda_tensors(4, dtype=torch.int32)
    with pytest.raises(TypeError, match=r"softmax takes float16.* not torch\.int32"):
        checked(integers, -1, None)
    with pytest.raises(TypeError, match=r"norms take float16.* not torch\.int32"):
        norm(integers, None, None, None)
    with pytest.raises(TypeError, match="bfloat16"):
        checked(x, -1, torch.bfloat16)
    norm(x, cuda_tensors(6), cuda_tensors(6, dtype=torch.float32), x)
    with pytest.raises(ValueError, match=r"weight is \(4,\)"):
        norm(x, cuda_tensors(4), None, None)
    with pytest.raises(TypeError, match=r"bias is torch\.float64"):
        norm(x, None, cuda_tensors(6, dtype=torch.float64), None)
    with pytest.raises(ValueError, match="residual is"):
        norm(x, None, None, cuda_tensors(4, 7))
    with pytest.raises(TypeError, match=r"residual is torch\.float32"):
        norm(x, None, None, cuda_tensors(4, 6, dtype=torch.float32))
    with pytest.raises(ValueError, match="needs a dimension"):
        norm(cuda_tensors(), None, None, None)
