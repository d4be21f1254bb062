"""Scripts in a process of their own, which starts with torch."""

import os
import subprocess
import sys

from support import warm
from support.paths import ROOT
from support.projects import PYTHONPATH


def script(code, *arguments, timeout_s=240, **environment):
    """Run code that may import softbench, impls and support."""
    process = warm.popen(PYTHONPATH)(
        [sys.executable, "-c", f"import sys; sys.path.append({str(ROOT / 'tests')!r})\n{code}", *arguments],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        output, errors = process.communicate(timeout=timeout_s)
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)
