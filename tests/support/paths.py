"""Where this checkout is."""

from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
ROOT = SUPPORT.parents[1]
KEPT = sorted((ROOT / "reports").glob("*/*.jsonl.xz"), key=lambda path: path.name)
"""The runs that are kept."""
