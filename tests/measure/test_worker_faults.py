"""What a worker makes of an exception: a status, a reason, and whether its process may go on."""

from __future__ import annotations

from softbench.measure.worker import faults
from softbench.model import Status


def test_work_that_a_captured_launch_leaves_behind_is_a_mistake_and_ends_the_worker() -> None:
    """Torch's allocator would go on as if the capture had not ended."""
    error = RuntimeError(
        "CUDA error: capturing stream has unjoined work\nSearch for `cudaErrorStreamCaptureUnjoined' in..."
    )
    status, reason = faults.classify(error, "capture")
    assert (status, reason.startswith("work on another stream"), faults.is_sticky(reason)) == (
        Status.INCORRECT,
        True,
        True,
    )
    assert faults.classify(error, "launch")[0] is Status.RUNTIME_ERROR
