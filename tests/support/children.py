"""A Python of its own that starts cold: with `scripts.script` it would begin with torch."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.paths import ROOT


def python(*arguments: str | bytes, cwd: Path = ROOT, **changes: Any) -> subprocess.CompletedProcess[str]:
    """With this checkout on its path; changes are variables of its environment."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT), **changes},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
