"""pytest hooks. Without --softbench this does nothing and imports next to nothing."""

from __future__ import annotations

import pytest

from softbench import settings


def pytest_addoption(parser: pytest.Parser) -> None:
    settings.add_options(parser.getgroup("softbench", "softmax kernels: right, fast, ranked"))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--softbench"):
        return
    from softbench import session

    session.start(config)


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """`-n auto` is a worker a GPU; without one a single worker, as there is a single CPU to be timed on."""
    if not config.getoption("--softbench"):
        return None
    from softbench import device

    return max(1, len(device.visible()))
