"""Work that is not done when the launch returns."""

import threading
import time
from typing import Any

from softbench import implementation


@implementation(operator="softmax", requires=["cuda>=sm_70"])
def other_stream(case: Any) -> Any:
    """Works on a stream of its own, which waits for no other and for which no other waits."""
    import torch

    stream = torch.cuda.Stream()

    def launch(x: Any) -> Any:
        with torch.cuda.stream(stream):
            return x.softmax(-1)

    return launch


@implementation(operator="softmax")
def left_to_a_thread(case: Any) -> Any:
    """Returns at once and lets a thread write the output."""

    def work(x: Any, y: Any) -> None:
        time.sleep(0.05)
        y.copy_(x.softmax(-1))

    def launch(x: Any) -> Any:
        y = x.new_empty(x.shape)
        threading.Thread(target=work, args=(x, y)).start()
        return y

    return launch


@implementation(operator="softmax")
def left_lazy(case: Any) -> Any:
    """Returns a tensor that computes when its values are read, which is after the clock has stopped."""
    import torch

    class Later(torch.Tensor):  # type: ignore[misc]
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            with torch._C.DisableTorchFunctionSubclass():
                done = [torch.softmax(a.as_subclass(torch.Tensor), -1) if isinstance(a, cls) else a for a in args]
                return func(*done, **(kwargs or {}))

    return lambda x: x.as_subclass(Later)


@implementation(operator="softmax")
def lying_class(case: Any) -> Any:
    """Returns a tensor whose class claims to be torch's own, and which computes when its values are read."""
    import torch

    class Same(type(torch.Tensor)):  # type: ignore[misc]
        def __eq__(cls, other: object) -> bool:
            return True

        def __hash__(cls) -> int:
            return hash(torch.Tensor)

    class Tensor(torch.Tensor, metaclass=Same):  # type: ignore[misc]
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            with torch._C.DisableTorchFunctionSubclass():
                mine = [torch.softmax(a.as_subclass(torch.Tensor), -1) if type(a) is cls else a for a in args]
                return func(*mine, **(kwargs or {}))

    return lambda x: x.as_subclass(Tensor)


@implementation(operator="softmax")
def mode_left_on(case: Any) -> Any:
    """Returns an empty tensor, and leaves a mode of torch switched on that fills it in the caller's next call of torch."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    owed: list[tuple[Any, Any]] = []

    class Paying(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            while owed:
                y, x = owed.pop()
                y.copy_(x.softmax(-1))
            return func(*args, **(kwargs or {}))

    def launch(x: Any) -> Any:
        y = torch.empty_like(x)
        if not owed:
            Paying().__enter__()
        owed.append((y, x))
        return y

    return launch
