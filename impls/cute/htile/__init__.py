"""A small tile library for kernels that work row by row, on CuTe DSL.

config     how a kernel is laid out: threads, clusters, vectors. Pure, without cutlass
layouts    which layout rows of a length get; pure as well
launch     how a kernel is launched: its grid, and how it overlaps with its neighbours
utils      element pointers, vectors seen as matrices, fake tensors, stores to another CTA
types      register tiles
copy       moving vectors between global memory, shared memory and registers; what lies outside the matrix
compute    reductions over the threads of a warp, the warps of a CTA and the CTAs of a cluster
bounds     where a thread's vectors end
dataflow   what a kernel does before and after its arithmetic
powers     the exponentials of a row
vectors    what has one value a column, or one a row: weights in, statistics out
split      rows that are split over the whole GPU
ring       such rows one behind the other in shared memory

They import one another in that order only. docs/htile.md draws the layouts.
"""
