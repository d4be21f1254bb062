"""Reductions along a row."""
