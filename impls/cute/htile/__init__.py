"""A small tile library for kernels that work row by row: config <- copy <- reduce <- dataflow <- kernel."""
