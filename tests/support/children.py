"""A Python of its own that starts cold: with `scripts.script` it would begin with torch."""

import os
import subprocess
import sys

from support.paths import ROOT


def python(*arguments, cwd=ROOT, **changes):
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT), **changes},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
