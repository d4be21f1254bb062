"""One cell under compute-sanitizer's memcheck: the first access that it finds outside the memory that the cell has."""

import json
import os
import re
import subprocess
import sys
from typing import Any

from softbench.measure.device import toolkit
from softbench.texts import printable

_OPTIONS = ("--tool=memcheck", "--report-api-errors=no", "--padding=4096", "--show-backtrace=no", "--print-limit=1")
_LINE = re.compile(r"^========= ?(.*)$", re.M)
_NO_FINDING = re.compile(r"COMPUTE-SANITIZER|ERROR SUMMARY|LEAK SUMMARY|Target application|Error: |Warning: |No attachable|$")
_MOST_LINES, _MOST_WIDTH = 8, 200


TOOL = "compute-sanitizer"


def first_finding(request: dict[str, Any], timeout_s: float) -> str:
    """What compute-sanitizer says first of a cell that is prepared in a process of its own; "" if it finds nothing.

    Raises TimeoutError. torch allocates each tensor by itself there, and no tensor ends where another begins.
    """
    command = [toolkit(TOOL), *_OPTIONS, sys.executable, "-m", "softbench.measure.worker.in_process"]
    own = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            command,
            input=json.dumps(request),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env=os.environ | own,
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"compute-sanitizer found nothing within {timeout_s:g} s") from None
    return read(done.stdout)


def read(output: str) -> str:
    lines = [line.rstrip() for line in _LINE.findall(output)]
    begins = next((at for at, line in enumerate(lines) if not _NO_FINDING.match(line.strip())), len(lines))
    found = [lines[begins]] if begins < len(lines) else []
    for line in lines[begins + 1 :]:
        if not line.startswith("   "):
            break
        found.append(line)
    return "\n".join(printable(line)[:_MOST_WIDTH] for line in found[:_MOST_LINES])
