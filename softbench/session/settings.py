"""pytest's options, once, as one frozen object; every wrong value is one clear error."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softbench.texts import InputError, share

DEFAULT_BUDGET_S = 10.0
CPU_BUDGET_S = 5.0
"""Without a GPU: most ranks that are open after 5 s are open after 10 s too."""
QUICK_BUDGET_S = 0.75
DEFAULT_TIMEOUT_S = 120.0
DEFAULT_DRAWN_FROM = 1000
MOST_DRAWN = 100_000
GREATEST_SEED = 10**18 - 1 - MOST_DRAWN
AXES = ("dtype", "rows", "columns")


class SettingsError(InputError):
    """An option cannot be used; the message names it and what is allowed."""


@dataclass(frozen=True)
class Settings:
    """The options of one command. Times in seconds."""

    profiles: tuple[str, ...]
    shapes: Path
    impls: tuple[Path, ...]
    reports: Path
    budget_s: float
    timeout_s: float
    resume: str
    seed: int | None
    expected_gpu: str
    any_gpu: bool
    axes: tuple[tuple[str, str], ...]
    operators: tuple[Path, ...] = ()
    traffic: bool = False
    device_clock: bool = False
    registers: bool = False
    no_page: bool = False
    baseline: str = ""
    against: tuple[str, ...] = ()
    events: Path | None = None
    fail_on: float | None = None
    threads: int = 0
    full_size: bool = False
    run_budget_s: float = 0.0
    """0: as long as its cases take."""
    debug: bool = False
    quick: bool = False
    watch: bool = False
    is_again: bool = False
    """Whether it is not the first run of a watch."""
    drawn: int = 0
    drawn_from: int = DEFAULT_DRAWN_FROM
    selection: str = ""
    """The options that choose the cells, and how they end, as they were given."""


_OPTIONS = (
    ("profile", "NAMES", "profiles of shapes.yaml, comma-separated (default: gpu with a GPU, else cpu)"),
    ("shapes", "FILE", "shapes.yaml to use (default: ./shapes.yaml, else the bundled one)"),
    ("impls", "DIR", "further folder of implementation files; may be repeated"),
    ("operators", "DIR", "folder of operators of your own; may be repeated (default: operators next to shapes.yaml)"),
    ("dtype", "LIST", "only these dtypes, e.g. float16,float32"),
    ("rows", "LIST", "only these row counts, e.g. 1,4096-32768"),
    ("columns", "LIST", "only these column counts, e.g. 1024-8192,50257"),
    (
        "budget",
        "S[,RUN]",
        f"measuring time of one case in seconds (default {DEFAULT_BUDGET_S:g}, without a GPU {CPU_BUDGET_S:g}),"
        " and about how long the run may take",
    ),
    ("drawn", "N", f"further cases of hard values, drawn from seeds, per operator: up to {MOST_DRAWN}"),
    ("drawn-from", "SEED", f"seed of the first of these (default {DEFAULT_DRAWN_FROM})"),
    ("timeout", "S", f"longest time for one compile-and-check (default {DEFAULT_TIMEOUT_S:g} s)"),
    ("events", "FILE", "append what happens to a file or a pipe, one line of JSON per event"),
    ("reports", "DIR", "where records and pages go (default: ./reports)"),
    ("resume", "RUN", "resume a run (its id, its file, or 'latest')"),
    ("baseline", "RUN", "compare with an earlier run at the end (its id, its file, or 'latest')"),
    (
        "against",
        "VERSION",
        "the same implementations at git:REVISION, of a folder, or run by the environment venv:PATH, in the same rounds;"
        " may be repeated",
    ),
    ("fail-on", "PERCENT", "with one of these two: fail if a cell no longer passes, or got slower by at least this, e.g. 2%%"),
    ("seed", "N", "seed of inputs, order and random shapes (default: drawn, and recorded)"),
    ("threads", "N", "threads of what is timed on a CPU (default: OMP_NUM_THREADS, else 1)"),
    ("expect-gpu", "NAME", "refuse to run on any other GPU, e.g. H200"),
)
_REPEATED = ("operators", "impls", "against")
_FLAGS = (
    ("full-size", "without a GPU: run the cases as shapes.yaml has them, and cut no rows off"),
    ("any-gpu", "run on any GPU, in spite of --softbench-expect-gpu"),
    ("debug", "check one cell in this process, for a debugger; nothing is timed or recorded"),
    ("quick", f"a first answer: {QUICK_BUDGET_S:g} s per case, and of the bundled implementations only those that -k names"),
    ("watch", "run again whenever a source of an implementation is saved, and show what changed"),
    ("ladders", "with the rungs of all ladders, which otherwise take part only if they are named"),
    ("traffic", "count the bytes that each kernel moves, with ncu; half a minute more per case"),
    ("device-clock", "also time each kernel's own span, by torch's profiler in separate processes"),
    ("no-page", "write no page (about 2 MB) at the end; softbench report RUN makes it from the records"),
    ("registers", "build each timed kernel once more and record its registers, stack and shared memory"),
)


def add_options(group: Any) -> None:
    """Declare the options on pytest's option group."""
    group.addoption("--softbench", action="store_true", help="run the benchmark: check, time and rank every implementation")
    for name, text in _FLAGS:
        group.addoption(f"--softbench-{name}", action="store_true", help=text)
    for name, metavar, text in _OPTIONS:
        repeats: dict[str, Any] = {"action": "append", "default": []} if name in _REPEATED else {"default": ""}
        group.addoption(f"--softbench-{name}", metavar=metavar, help=text, **repeats)


def on_the_command_line(config: Any) -> list[str]:
    """The options of softbench among the arguments, without those of addopts."""
    return [str(text) for text in config.invocation_params.args if str(text).startswith("--softbench-")]


def read(config: Any, preferred: str, profile_of: Callable[[Path, str], str] = lambda shapes, name: name) -> Settings:
    """Settings from pytest's config, on a machine that prefers the profile "cpu" or "gpu". Raises `SettingsError`.

    profile_of names the profile of a shapes file to use if the command names none.
    """
    if empty := [text for text in on_the_command_line(config) if text.endswith("=")]:
        raise SettingsError(f"{empty[0][:-1]}: no value is given after its '='; give one, or leave the option out")

    def option(name: str) -> Any:
        return config.getoption(f"--softbench-{name}")

    root = Path(config.invocation_params.dir)
    own_budget, has_both, run_budget = option("budget").partition(",")
    shapes = _shapes(root, option("shapes"))
    profiles = _profiles(option("profile") or profile_of(shapes, preferred))
    return Settings(
        profiles=profiles,
        shapes=shapes,
        impls=_impls(root, option("impls")),
        operators=_operators(root, shapes, option("operators")),
        reports=_path("reports", root, option("reports") or "reports"),
        budget_s=_seconds("budget", own_budget, _budget(preferred, option("quick"))),
        run_budget_s=_seconds("budget", run_budget or option("budget"), 60.0) if has_both else 0.0,
        timeout_s=_seconds("timeout", option("timeout"), DEFAULT_TIMEOUT_S),
        axes=tuple((name, option(name)) for name in AXES),
        seed=_integer("seed", option("seed")),
        expected_gpu=option("expect-gpu"),
        resume=option("resume"),
        baseline=_one_of_two(option("baseline"), option("against")),
        against=tuple(option("against")),
        events=_path("events", root, option("events")) if option("events") else None,
        fail_on=_limit(option("fail-on"), option("baseline") or option("against")),
        threads=_threads(option("threads")),
        drawn=_drawn("drawn", option("drawn"), 0, MOST_DRAWN),
        drawn_from=_drawn("drawn-from", option("drawn-from"), DEFAULT_DRAWN_FROM, GREATEST_SEED),
        selection=_selection(",".join(profiles), option),
        **{name.replace("-", "_"): option(name) for name, _ in _FLAGS if name != "ladders"},
    )


def _budget(preferred: str, is_quick: bool) -> float:
    if is_quick:
        return QUICK_BUDGET_S
    return CPU_BUDGET_S if preferred == "cpu" else DEFAULT_BUDGET_S


def _profiles(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise SettingsError(f"--softbench-profile: no name in {text!r:.60}; give one or more, e.g. cpu")
    return names


def _selection(profiles: str, option: Callable[[str], Any]) -> str:
    """With "=" before values: in a checkout that is not installed pytest takes a separate folder for one of tests."""
    given = [("profile", profiles)] + [(name, option(name)) for name in ("shapes", *AXES, "drawn", "drawn-from", "timeout", "seed")]
    given += [(name, value) for name in reversed(_REPEATED) for value in option(name)]
    flags = [f"--softbench-{name}" for name in ("ladders", "quick", "full-size") if option(name)]
    return " ".join([*flags, *(f"--softbench-{name}={shlex.quote(value)}" for name, value in given if value)])


def _shapes(root: Path, given: str) -> Path:
    from softbench import resources

    return _path("shapes", root, given).resolve() if given else resources.shapes_of(root)


def _impls(root: Path, given: list[str]) -> tuple[Path, ...]:
    from softbench import resources

    own = (_path("impls", root, folder).resolve() for folder in given)
    return tuple(dict.fromkeys([resources.bundled_impls().resolve(), *own]))


def _operators(root: Path, shapes: Path, given: list[str]) -> tuple[Path, ...]:
    """Those given, else the folder next to shapes.yaml; with the bundled shapes.yaml, in the folder of the command."""
    from softbench import resources
    from softbench.cases import operator_files

    is_bundled = shapes == resources.bundled_shapes().resolve()
    named = tuple(_path("operators", root, folder).resolve() for folder in given)
    return named or operator_files.beside(root if is_bundled else shapes.parent)


def _path(name: str, root: Path, text: str) -> Path:
    try:
        (root / text).resolve()
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a NUL
        raise SettingsError(f"--softbench-{name}: {text!r:.60} is no path ({error})") from None
    return root / text


def _seconds(name: str, text: str, default: float) -> float:
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e6:
        option = f"--softbench-{name}"
        raise SettingsError(f"{option}: {text!r:.60} is not a time; give seconds above 0, e.g. {option} {default:g}")
    return value


def _one_of_two(baseline: str, against: list[str]) -> str:
    if baseline and against:
        raise SettingsError("--softbench-baseline and --softbench-against are two comparisons; leave one out")
    return baseline


def _limit(text: str, baseline: str | list[str]) -> float | None:
    """The share by which a cell may get slower; None without a limit."""
    if not text:
        return None
    limit = share(text)
    if limit is None:
        raise SettingsError(f"--softbench-fail-on: {text!r:.60} is no limit; give per cent from 0 to 1000, e.g. 2%")
    if not baseline:
        raise SettingsError(
            "--softbench-fail-on needs a run to compare with; name it with --softbench-baseline or --softbench-against"
        )
    return limit


def _threads(text: str) -> int:
    count = _integer("threads", text)
    if count is not None and not 0 < count <= 4096:
        raise SettingsError(f"--softbench-threads: {count} is no number of threads; give one or more, e.g. 1")
    return count or 0


def _drawn(name: str, text: str, default: int, most: int) -> int:
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= most):
        raise SettingsError(f"--softbench-{name}: {text!r:.60} is not a whole number from 0 to {most}")
    return int(text)


def _integer(name: str, text: str) -> int | None:
    if not text:
        return None
    try:
        value = int(text)
    except ValueError:
        raise SettingsError(f"--softbench-{name}: {text!r:.60} is not a whole number") from None
    if not -(2**63) <= value < 2**63:
        raise SettingsError(f"--softbench-{name}: {text!r:.60} does not fit 64 bits")
    return value
