"""What is kept: runs on disk, which of them may share a table, and the published figures of others."""
