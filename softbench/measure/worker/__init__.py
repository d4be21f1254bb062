"""The child's side: one process an implementation, started by the nursery, driven turn by turn by the parent."""
