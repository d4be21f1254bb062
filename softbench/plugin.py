"""pytest hooks. Without --softbench this does nothing and imports next to nothing."""

import re
import sys
from collections.abc import Generator

import pytest

from softbench import packages
from softbench.session import settings

PLATFORM = sys.platform


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the options; for -n without pytest-xdist, say what is missing, which pytest does not."""
    settings.add_options(parser.getgroup("softbench", "softmax kernels: right, fast, ranked"))
    config = pluginmanager.get_plugin("pytestconfig")
    arguments = list(map(str, config.invocation_params.args)) if config is not None else []
    workers = [text for text in arguments if re.fullmatch(r"-n(\d+|auto|logical)?|--numprocesses(=.*)?", text)]
    if workers and "--softbench" in arguments and packages.is_missing("xdist"):
        raise pytest.UsageError(f"softbench: {workers[0]}: {packages.advice('xdist')}")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--softbench"):
        if given := settings.on_the_command_line(config):
            raise pytest.UsageError(f"softbench: {given[0].split('=')[0]} does nothing without --softbench; add it")
        return
    if not PLATFORM.startswith("linux"):
        raise pytest.UsageError(f"softbench: measures on Linux only, and this is {PLATFORM}; the command softbench reads runs")
    from softbench.session import session

    try:
        session.start(config)
    except ModuleNotFoundError as error:
        raise pytest.UsageError(f"softbench: {packages.advice(error.name or '')}") from None


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, int | pytest.ExitCode | None, int | pytest.ExitCode | None]:
    """With --softbench-watch, the first run is followed by others."""
    status = yield
    if status is None or not (config.getoption("--softbench") and config.getoption("--softbench-watch")):
        return status
    from softbench.session import watching

    watch = watching.of(config)
    if watch is None or watch.is_again or config.option.collectonly:
        return status
    return watch.go_on(config.invocation_params.args, status)


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """`-n auto` is one worker per GPU; without a GPU one worker, since there is one CPU to be timed on."""
    if not config.getoption("--softbench"):
        return None
    from softbench.measure import device

    return max(1, len(device.visible()))
