"""A kernel apart from its author's code: captured in one process, handed over as data, rebuilt and timed in another."""
