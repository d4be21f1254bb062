"""The child's side: one process an implementation, started by the forkserver, driven turn by turn by the parent."""
