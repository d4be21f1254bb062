"""Scripts in Triton's interpreter, which is chosen before a kernel is decorated: each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support import warm
from support.projects import PYTHONPATH


def interpreted(folder: Path, code: str) -> None:
    """Run a script, from a file in the folder, where the interpreter reads its kernels. It must end well."""
    script = folder / "script.py"
    script.write_text(code)
    process = warm.popen(PYTHONPATH)(
        [sys.executable, "-c", f"import runpy; runpy.run_path({str(script)!r})"],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors[-3000:]
