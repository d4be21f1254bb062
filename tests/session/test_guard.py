"""tox installs gigabytes for a GPU only where that GPU is."""

import configparser
import sys

from support.children import python
from support.grids import over
from support.paths import ROOT

from softbench.measure import device
from softbench.session import guard

H100 = device.Gpu("NVIDIA H100 80GB HBM3", 90, 132, 52_428_800, 80_000_000_000, 2_619_000, 5120)


@over(
    "cards, arguments, why",
    [
        ((), (), "an H200 is expected, but no CUDA GPU is visible here; nothing was installed: `tox -e h200 -- "),
        ((H100,), (), "an H200 is expected, but this machine has 'NVIDIA H100 80GB HBM3'; nothing was installed: "),
        ((), ("-k", "a b", "--softbench-any-gpu"), ""),
    ],
)
def test_another_machine_is_refused_unless_any_will_do(monkeypatch, cards, arguments, why):
    monkeypatch.setattr(device, "gpus", lambda: cards)
    said = guard.refusal("H200", arguments)
    assert said.startswith(f"softbench: {why}" if why else "")
    assert bool(said) is bool(why)
    assert "\n" not in said
    if cards:
        assert guard.refusal("H100", arguments) == ""


@over("any_gpu", [False, True])
def test_the_command_is_run_or_is_not(any_gpu):
    command = ["-S", "-m", "softbench.session.guard", "H200", *["--softbench-any-gpu"] * any_gpu, "--then"]
    installing = [sys.executable, "-c", "print('installed')"]
    done = python(*command, *installing, CUDA_VISIBLE_DEVICES="", PYTHONPATH="")
    assert (done.returncode, done.stdout) == ((0, "installed\n") if any_gpu else (1, ""))
    assert done.stderr.count("\n") == (not any_gpu)


def test_tox_installs_by_it_for_each_gpu():
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    commands = tox["testenv:h{100,800,200}"]["install_command"].split("\n")[1:]
    assert commands == [
        f"h{name}: python -m softbench.session.guard H{name} {{posargs}} --then python -I -m pip install {{opts}} {{packages}}"
        for name in (100, 800, 200)
    ]
