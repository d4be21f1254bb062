"""First words of the notes of a record that other modules search for."""

ALSO_ON_GPU = "also on the GPU while this was measured: "
"""Followed by the other processes on the GPU."""
CPU_BUSY = "this CPU was busy while this was measured: others used "
"""Followed by the share of the CPU that other processes used."""
