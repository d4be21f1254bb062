"""Another environment, whose python runs implementations: where it is, and what is installed there."""

import json
import os
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from softbench.texts import InputError

OLDEST, TOO_NEW = (3, 10), (3, 14)
_START_S = 60.0
_PROBE = """
import importlib.util, json, sys
found = sys.version.split()[0], sys.version_info[:2], [p for p in sys.path if p], bool(importlib.util.find_spec("torch"))
print("\\n" + json.dumps(found))
"""
_OURS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


@dataclass(frozen=True)
class Environment:
    """name: of the folder, or of the python if it is not bin/python. path: where that imports from."""

    python: str
    name: str
    version: str
    path: tuple[str, ...]


def find(place: str) -> Environment:
    """The environment in a folder, or that of a python. Raises InputError."""
    path = Path(os.path.abspath(os.path.expanduser(place)))  # not resolved: a venv's python is a link to another
    python = path / "bin" / "python" if path.is_dir() else path
    if not (place and python.is_file() and os.access(python, os.X_OK)):
        raise InputError(f"venv:{place:.200} is no folder with bin/python and no python; python -m venv FOLDER makes one")
    return of(str(python))


@lru_cache
def of(python: str) -> Environment:
    """The environment of a python, which is run once. Raises InputError if it cannot run implementations."""
    command, why = [python, "-c", _PROBE], "it gives no answer"
    try:
        done = subprocess.run(command, env=variables(python), capture_output=True, timeout=_START_S, check=False)
        why = done.stderr.decode(errors="replace").strip()[-200:] or why
        version, release, path, has_torch = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError, TypeError):
        raise InputError(f"{python} does not run as a Python: {why}") from None
    if not OLDEST <= tuple(release) < TOO_NEW:
        raise InputError(f"{python} is Python {version}; softbench runs on 3.{OLDEST[1]} to 3.{TOO_NEW[1] - 1}")
    if not has_torch:
        raise InputError(f"torch is missing there: {python} -m pip install torch")
    name = Path(python).parts[-3 if python.endswith("/bin/python") else -1]
    return Environment(python, name, version, tuple(path))


def variables(python: str) -> dict[str, str]:
    """Those of this process, as if the environment of the python were activated."""
    kept = {name: value for name, value in os.environ.items() if name not in _OURS}
    return kept | {"PATH": f"{os.path.dirname(python)}{os.pathsep}{kept.get('PATH', os.defpath)}"}
