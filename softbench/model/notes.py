"""How those notes of a record begin that other modules look for."""

ALSO_ON_GPU = "also on the GPU while this was measured: "
"""Followed by the other processes on the GPU."""
CPU_BUSY = "this CPU was busy while this was measured: others used "
"""Followed by what other processes used of the CPU."""
