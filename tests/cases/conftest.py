from pathlib import Path

import pytest

from softbench import resources
from softbench.cases import matrix


@pytest.fixture(scope="session")
def bundled():
    return matrix.load(resources.bundled_shapes())


@pytest.fixture
def tree(cwd):
    """Writes files, path -> text; returns the topmost part of the first path."""

    def write(files):
        for name, text in files.items():
            path = Path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return Path(Path(next(iter(files))).parts[0])

    return write


@pytest.fixture
def shapes(tree):
    return lambda text: tree({"shapes.yaml": text})
