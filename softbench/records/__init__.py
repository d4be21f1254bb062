"""What is kept: runs on disk, which of them may stand in one table, and the published figures of others."""
