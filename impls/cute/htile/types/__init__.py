"""Register tiles."""
