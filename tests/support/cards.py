"""GPUs that are not here, as the driver would describe them."""

from __future__ import annotations

from dataclasses import replace

from softbench.measure.device import Gpu

H200 = Gpu(
    "NVIDIA H200", 90, 132, 62_914_560, 150_000_000_000, 3_201_000, 6016, "0000:01:00.0", "580.1", clock_khz=1_980_000
)
CARDS = tuple(replace(H200, pci=f"0000:0{n}:00.0", uuid=f"GPU-{n}") for n in range(4))
