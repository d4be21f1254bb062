"""`softbench capture`: runs a torch program and writes the profile of what it called."""

import runpy
import signal
import sys
import traceback
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from softbench.analysis.leaderboard.formatting import plural
from softbench.cli.command import Command, CommandResult, Options, argument
from softbench.resources import shown
from softbench.texts import InputError

if TYPE_CHECKING:
    from softbench.cases.operators.captured import Seen


def _run(options: Options) -> CommandResult:
    path, name, words = Path(options.output), options.name, options.program
    words = words[Path(words[0]).name.startswith("python") and Path(words[0]).suffix != ".py" :]
    is_module = len(words) > 1 and words[0] == "-m"
    if not is_module and not (words and Path(words[0]).is_file()):
        raise InputError(f"{' '.join(words)!r:.80}: no such program; give -- python FILE, or -- python -m MODULE")
    if not name.replace("-", "_").isidentifier():
        raise InputError(f"--name {name!r:.40}: letters, digits, - and _ only, and no digit first")
    if path.exists():
        raise InputError(f"{path}: exists, and is not overwritten; choose another with --output")
    from softbench.cases.operators.captured import capture

    sys.argv, code = words[is_module:], 0
    sys.path.insert(0, str(Path.cwd() if is_module else Path(words[0]).resolve().parent))
    if is_module and not _exists(words[1]):
        raise InputError(f"-m {words[1]:.80}: no such module")
    with capture() as seen:
        path.touch()  # or an error, now
        path.unlink()
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # as a scheduler ends a program
        path, place = path.absolute(), shown(path)  # it may change the folder
        try:
            if is_module:
                runpy.run_module(words[1], None, "__main__", True)
            else:
                runpy.run_path(words[0], None, "__main__")
        except Exception as error:
            traceback.print_exception(error.with_traceback(_own(error)))
            code = 1
        finally:  # also before an exit
            if not sys.stdout or sys.stdout.closed:
                sys.stdout = sys.stderr
            if seen.cases:
                _write(seen, path, name)
                print(f"written: {place}, {plural(len(seen.cases), 'case')}; check and time:\n")
                print(f"  pytest --softbench --softbench-shapes={place} --softbench-profile={name}\n")
            else:
                print("no call that it captures (docs/how-to.md)")
            for text, count in seen.others.items():
                print(f"not in the profile: {text}, {count} x")
    return "", code


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):
        return False


def _own(error: BaseException) -> TracebackType | None:
    """The traceback from the program's first frame on."""
    found = error.__traceback__
    while found is not None and found.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>", runpy.__file__):
        found = found.tb_next
    return found


def _write(seen: "Seen", path: Path, name: str) -> None:
    """Write the profile, or print it where that fails: the program may have run for hours."""
    try:
        seen.write(path, name)
    except OSError as error:
        if not isinstance(error, FileExistsError):
            path.unlink(missing_ok=True)
        print(seen.profile(name))
        raise InputError(f"{path} cannot be written ({error.strerror}); what it would hold is above") from None


COMMAND = Command(
    "capture",
    "run a torch program, and write the cases that it asks as a profile",
    (("softbench capture -- python train.py --steps 3", "the profile model in shapes.yaml"),),
    (
        argument("program", metavar="PROGRAM", nargs="+", help="after --: python FILE, or python -m MODULE, and its arguments"),
        argument("--name", default="model", help="name of the profile (default: %(default)s)"),
        argument("--output", metavar="FILE", default="shapes.yaml", help="a new file (default: %(default)s)"),
    ),
    _run,
)
