"""Makes `pytest --softbench` work in a bare checkout: the checkout's own softbench, as a plugin."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import softbench  # noqa: E402

if Path(softbench.__file__).resolve().parent != ROOT / "softbench":
    raise pytest.UsageError(
        f"this checkout is {ROOT}, but softbench was loaded from {Path(softbench.__file__).parent}; "
        "uninstall that copy, or install this checkout with: pip install -e ."
    )


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Load the plugin; pytest refuses `pytest_plugins` where this folder is reached from elsewhere, for its shapes.yaml."""
    pluginmanager.import_plugin("softbench.plugin")
