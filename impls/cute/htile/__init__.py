"""A small tile library for kernels that work row by row, on CuTe DSL.

config     how a kernel is laid out: threads, clusters, vectors. Pure, without cutlass
copy       moving vectors between global memory, shared memory and registers; what lies outside the matrix
compute    reductions over the threads of a warp, the warps of a CTA and the CTAs of a cluster
types      register tiles
dataflow   what a kernel does before and after its arithmetic
vectors    what has one value a column, or one a row: weights in, statistics out

They import one another in that order only. docs/htile.md draws the layouts.
"""
