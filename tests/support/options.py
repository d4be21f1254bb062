"""pytest's options as softbench declares them, and the settings that they come to."""

from types import SimpleNamespace

from softbench.session import settings


class Group:
    def __init__(self):
        self.options = {}
        self.help = {}
        settings.add_options(self)

    def addoption(self, name, **how):
        self.options[name] = how.get("default", False)
        self.help[name] = how["help"]


def read(folder, **given):
    options = Group().options
    for key, value in given.items():
        name = f"--softbench-{key.replace('_', '-')}"
        assert name in options
        options[name] = value
    config = SimpleNamespace(getoption=options.__getitem__, invocation_params=SimpleNamespace(dir=folder, args=()))
    return settings.read(config, "cpu")
