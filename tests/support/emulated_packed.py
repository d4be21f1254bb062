"""Dense rows of impls/cute's packed kernels on a CPU: what stands for a CTA's stretch and a thread's units in `emulated_cute`."""

from types import SimpleNamespace

import numpy as np

from support.emulated_cute import Context, Reduction, numbers


class PackedContext(Context):
    """All threads of one dense row, of a layout with one pass."""

    def __init__(self, config, x, stage=1):
        self.config, self.reduction = config, Reduction(config)

    def row(self, _):
        return 0

    def stretch(self, matrix):
        """A copy of the matrix, which `write` takes to another one."""
        values = matrix.values.copy()
        return SimpleNamespace(values=values, units=lambda _, fill=0.0: Units(self, values, matrix.element_type, fill))

    def columns(self, vector):
        return Units(self, vector.values, vector.element_type, 0.0)

    def store_row(self, vector, row, value):
        if vector is not None:
            super().store_row(vector, np.broadcast_to(value, self.config.threads_per_row))


class Units:
    """The units of a row, or of a vector of one value per column."""

    def __init__(self, context, values, dtype, fill):
        self.config, self.memory, self.dtype, self.fill = context.config, values, dtype, fill

    def _columns(self, turn):
        threads, unit = self.config.threads_per_row, self.config.unit
        return (turn * threads + np.arange(threads)) * unit + np.arange(unit)[:, None]

    def values(self, turn):
        column = self._columns(turn)
        inside = column < self.config.columns
        return numbers(np.where(inside, self.memory[np.where(inside, column, 0)], np.float32(self.fill)))

    def masked(self, turn, values, absent=0.0):
        return numbers(np.where(self._columns(turn) < self.config.columns, values, np.float32(absent)))

    def store(self, turn, values):
        column = self._columns(turn)
        inside = column < self.config.columns
        self.memory[column[inside]] = np.broadcast_to(values, column.shape)[inside]


def write(_, stretches, matrices):
    for stretch, matrix in zip(stretches, matrices, strict=True):
        matrix.values[:] = stretch.values


STAND_INS = {"PackedContext": PackedContext, "bring": lambda *_: None, "write": write}
