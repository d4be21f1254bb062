"""What is kept: runs on disk, which of them may share a table, and the claims of others."""
