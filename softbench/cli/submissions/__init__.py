"""Runs that people send each other as files: `submit` writes one into a folder, `review` checks all of a folder."""
