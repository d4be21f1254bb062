"""The bundled softmax of each family, with something of the driver's around it on which the result depends."""

from concurrent.futures import ThreadPoolExecutor

from softbench import implementation, resources
from softbench.measure.worker import loading

from . import _companions

FILES = {
    "cute_softmax": "cute/softmax.py",
    "cuda_cooperative": "cuda/softmax.py",
    "triton_best": "triton/best.py",
    "torch_eager": "library/torch_eager.py",
    "torch_compile": "library/torch_compile.py",
    "quack": "library/quack.py",
    "liger": "library/liger.py",
}


@implementation(
    operator="softmax",
    requires=["cuda>=sm_90", "torch", "cuda-core", "cuda-bindings"],
    params={
        "corner": [
            "cluster_of_16", "programmatic_edges", "cooperative_launch", "kernels_of_one_name", "fills_and_copies",
            "counting_workspace", "workspace_of_a_thread", "joined_streams", "own_memory",
        ],
        "family": [
            "cute_softmax", "cuda_cooperative", "triton_best", "torch_eager", "torch_compile", "quack", "liger",
        ],
    },
)  # fmt: skip
def around(case, corner, family):
    import torch

    torch.cuda.synchronize()  # makes the context current in which the companions are loaded
    factory = loading.load(resources.bundled_impls() / FILES[family], family)
    return CORNERS[corner](factory(case))


def followed(softmax, words, *companions):
    """Companions, each a kernel and its attributes, pass the output on."""
    import torch

    def launch(x):
        out = softmax(x)
        for kernel, *attributes in companions:
            given, out = out, torch.empty_like(out)
            _companions.launch(kernel, given, out, words, *attributes)
        return out

    return launch


def cluster_of_16(softmax):
    from cuda.bindings import driver

    kernel = _companions.kernel("swap_in_cluster")
    allowed = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
    _companions.call("cuFuncSetAttribute", kernel, allowed, 1)
    return followed(softmax, _companions.workspace(), (kernel, _companions.cluster()))


def programmatic_edges(softmax):
    """The softmax and two more may overlap; the second one lets the third begin at once."""
    step = _companions.kernel("turn_early"), _companions.programmatic()
    return followed(softmax, _companions.workspace(_companions.KEY), step, step)


def cooperative_launch(softmax):
    """A barrier of the whole grid, in memory that the driver gives to cooperative launches only."""
    return followed(softmax, _companions.workspace(), (_companions.kernel("turn_twice"), _companions.cooperative()))


def kernels_of_one_name(softmax):
    """One adds what the other takes away; one is of a library, the other of a module."""
    there, back = _companions.kernel("twist"), _companions.kernel_of_module("twist", -1)
    return followed(softmax, _companions.workspace(), (there,), (back,))


def fills_and_copies(softmax):
    """The kernel needs two fills before it; a third one undoes them. A copy writes the output."""
    import torch

    words, kernel = _companions.workspace(), _companions.kernel("unlock_filled")
    first, pitch = words.data_ptr(), 16 * words.element_size()

    def launch(x):
        y, stream = softmax(x), _companions.stream()
        between, out = torch.empty_like(y), torch.empty_like(y)
        _companions.call("cuMemsetD32Async", first, _companions.KEY, 1, stream)
        _companions.call("cuMemsetD2D8Async", first + pitch, pitch, 0x5B, 4, 3, stream)
        _companions.launch(kernel, y, between, words)
        _companions.call("cuMemsetD32Async", first, 0, words.numel(), stream)
        _companions.call("cuMemcpyDtoDAsync", out.data_ptr(), between.data_ptr(), y.nbytes, stream)
        return out

    return launch


def counting_workspace(softmax):
    """The last of a launch's blocks is known by a count that every launch continues."""
    return followed(softmax, _companions.workspace(_companions.START), (_companions.kernel("count_up"),))


def workspace_of_a_thread(softmax):
    """As what CTAs of ours communicate through."""
    with ThreadPoolExecutor(1) as thread:
        words = thread.submit(_companions.workspace, _companions.KEY).result()
    return followed(softmax, words, (_companions.kernel("unlock"),))


def joined_streams(softmax):
    """The softmax on one stream, a fill on another; then each half of the output on a stream."""
    import torch

    sides = [torch.cuda.Stream() for _ in range(2)]
    words, kernel = _companions.workspace(), _companions.kernel("unlock")

    def launch(x):
        current = torch.cuda.current_stream()
        out, middle = torch.empty_like(x), x.shape[0] // 2
        for side in sides:
            side.wait_stream(current)
        with torch.cuda.stream(sides[0]):
            y = softmax(x)
        with torch.cuda.stream(sides[1]):
            _companions.call("cuMemsetD32Async", words.data_ptr(), _companions.KEY, 1, _companions.stream())
        sides[0].wait_stream(sides[1])
        current.wait_stream(sides[0])
        with torch.cuda.stream(sides[0]):
            _companions.launch(kernel, y[:middle], out[:middle], words)
        _companions.launch(kernel, y[middle:], out[middle:], words)
        current.wait_stream(sides[0])
        _companions.call("cuMemsetD32Async", words.data_ptr(), 0, 1, current.cuda_stream)
        return out

    return launch


def own_memory(softmax):
    """A workspace that torch did not allocate: no referee can have it."""
    words = int(_companions.call("cuMemAlloc", 4 * _companions.WORDS))
    _companions.call("cuMemsetD32", words, _companions.KEY, 1)
    return followed(softmax, words, (_companions.kernel("unlock"),))


CORNERS = {
    corner.__name__: corner
    for corner in (
        cluster_of_16, programmatic_edges, cooperative_launch, kernels_of_one_name, fills_and_copies,
        counting_workspace, workspace_of_a_thread, joined_streams, own_memory,
    )
}  # fmt: skip
