"""Calibrations of clocks: some that are right, one that runs slow, one that could not be tried."""

from softbench.model import Calibration

KNOWN = (20_000, 100_000, 500_000)
RIGHT = Calibration("graph", KNOWN, (21_200, 101_200, 501_200))
FAST = Calibration("graph", KNOWN, (40_000, 116_400, 500_400))
CALL = Calibration("call", KNOWN, (45_000, 125_120, 525_400))
BLIND = Calibration("device", fault="the profiler saw nothing on the GPU")
WHY = "reads 76.40 us where 80.00 us passed by the GPU's timer"
