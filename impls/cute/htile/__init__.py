"""A small tile library for kernels that work row by row, on CuTe DSL.

config     a kernel's layout: threads, clusters, vectors. Pure, without cutlass
layouts    the layout for rows of a given length; pure as well
crews      that of rows that are split over the whole GPU; pure as well
parts      that of one to three long rows, each in several clusters; pure as well
times      the predicted times of few or long rows; pure as well
packing    the layout of many short rows in a CTA, by what they cost; pure as well
strips     the layout of kernels that sum over rows; pure as well
spans      the layout of rows of which only a span is seen; pure as well
side       the layout of rows that lie side by side; pure as well
segmented  the layout of segments of a row that a CTA or less reads; pure as well
topk       the layout of rows whose largest are wanted; pure as well
launch     a kernel's grid, and how it overlaps with its neighbours
registers  register tiles
copy       vectors between global memory, shared memory and registers, up to the matrix's edges
lists      sorted lists over the lanes of a row
reduce     reductions over the threads of a warp, the warps of a CTA and the CTAs of a cluster
online     maximum and sum of exponentials of a row in one exchange
segments   maxima and sums along the segments of a row
merges     what parts of a row that is split over the GPU are, and how they merge
packed     such rows in shared memory, and a thread's part of one
strip      such a thread's columns from row to row
rows       what a kernel does before and after its arithmetic
columns    a weight or a bias
split      rows that are split over the whole GPU
phases     how far such a row is
ring       such rows in a ring in shared memory
claims     rows that clusters claim, in such a ring
resident   weights of such rows in shared memory

A module imports only modules above it. docs/htile.md draws the layouts.
"""
