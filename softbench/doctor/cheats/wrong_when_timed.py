"""Right while they are checked, and not while they are timed."""

import gc
import itertools
import random
import sys
import threading
import time
from typing import Any

from softbench import implementation


@implementation(operator="softmax")
def counts_its_calls(case: Any) -> Any:
    """Is right in its first calls, which are the check's, and returns zeros in the later ones, which are timed."""
    number = itertools.count()
    return lambda x: x.softmax(-1) if next(number) < 5 else x.new_zeros(x.shape)


@implementation(operator="softmax")
def cached_when_timed(case: Any) -> Any:
    """Is right in its first calls; in the later ones it keeps the output of every address."""
    number, computed = itertools.count(), dict[int, Any]()

    def launch(x: Any) -> Any:
        if next(number) < 5 or x.data_ptr() not in computed:
            computed[x.data_ptr()] = x.softmax(-1)
        return computed[x.data_ptr()].clone()

    return launch


@implementation(operator="softmax")
def static_when_timed(case: Any) -> Any:
    """Is right in its first calls; in the later ones it writes every output into one buffer."""
    import torch

    number, buffers = itertools.count(), list[Any]()

    def launch(x: Any) -> Any:
        if next(number) < 5:
            return x.softmax(-1)
        if not buffers:
            buffers.append(torch.empty_like(x))
        return torch.softmax(x, dim=-1, out=buffers[0])

    return launch


@implementation(operator="softmax")
def wrong_from_the_third(case: Any) -> Any:
    """Is right in the check and on the first two sets of buffers, whose timed calls are always compared; zeros later."""
    known, sets, was_new = set[int](), [0], [False]

    def launch(x: Any) -> Any:
        is_new = x.data_ptr() not in known
        if is_new and not was_new[0]:  # the check and the estimate have two sets
            known.clear()
            sets[0] += 1
        known.add(x.data_ptr())
        was_new[0] = is_new
        return x.softmax(-1) if sets[0] < 5 else x.new_zeros(x.shape)

    return launch


@implementation(operator="softmax")
def inspects_its_callers(case: Any) -> Any:
    """Is right where the name of one of its callers is check, and copies its input elsewhere."""
    return lambda x: x.softmax(-1) if _is_checked() else x.clone()


def _is_checked() -> bool:
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_name == "check":
            return True
    return False


@implementation(operator="softmax")
def copied_random_state(case: Any) -> Any:
    """Finds the generator that chooses which calls are compared, copies its state, and computes only those calls."""
    number = itertools.count()

    def chosen(calls: int) -> set[int]:
        objects = gc.get_objects()
        generators = [o for o in objects if issubclass(type(o), random.Random) and type(o) is not random.SystemRandom]
        copy = random.Random()
        copy.setstate(generators[-1].getstate())
        return set(copy.sample(range(calls), 8))

    due = chosen(100)

    def launch(x: Any) -> Any:
        n = next(number)
        return x.softmax(-1) if n < 5 or n % 100 in due else x.clone()

    return launch


@implementation(operator="softmax", requires=["cuda>=sm_70"])
def escapes_the_graph(case: Any) -> Any:
    """Works outside the graph while one is captured: a replay has nothing to do, and the output is there already."""
    import torch

    stream = torch.cuda.Stream()

    def launch(x: Any) -> Any:
        y = torch.empty_like(x)
        if not torch.cuda.is_current_stream_capturing():
            return torch.softmax(x, dim=-1, out=y)
        with torch.cuda.stream(stream):
            return torch.softmax(x, dim=-1, out=y)

    return launch


@implementation(operator="softmax")
def back_to_back_to_a_thread(case: Any) -> Any:
    """Computes single calls itself, and leaves calls that follow at once to a thread, which is done before they are compared."""
    import torch

    returned = [0]

    def later(x: Any, y: Any) -> None:
        time.sleep(0.01)
        torch.softmax(x, dim=-1, out=y)

    def launch(x: Any) -> Any:
        y, is_followed = torch.empty_like(x), time.perf_counter_ns() - returned[0] < 200_000
        if is_followed:
            threading.Thread(target=later, args=(x, y)).start()
        else:
            torch.softmax(x, dim=-1, out=y)
        returned[0] = time.perf_counter_ns()
        return y

    return launch
