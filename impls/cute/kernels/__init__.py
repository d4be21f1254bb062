"""The kernels: each file one algorithm, its launch and nothing else."""
