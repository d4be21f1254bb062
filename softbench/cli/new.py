"""`softbench new`: an implementation file to start from, which runs unchanged."""

from __future__ import annotations

import argparse
import keyword
import re
from importlib import resources as files
from pathlib import Path

from softbench import resources
from softbench.cli.command import Command, CommandResult, argument
from softbench.texts import InputError

LANGUAGES = ("triton", "torch")
LONGEST = 60


def _run(options: argparse.Namespace) -> CommandResult:
    folder = Path(options.folder)
    name = _usable(options.name, folder)
    path = folder / f"{name}.py"
    template = (files.files("softbench.cli") / "templates" / f"{options.language}.txt").read_text(encoding="utf-8")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(template.replace("NAME", name))
    except FileExistsError:
        what = "exists, and is not overwritten; choose another name" if path.exists() else "is in the way"
        raise InputError(f"{path if path.exists() else folder}: {what}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be written ({getattr(error, 'strerror', error)})") from None
    text = f"written: {path}\ncheck and rank it with the others:\n\n"
    return text + f"  pytest --softbench --softbench-impls={folder} --softbench-columns=1024-4096 -k {name}\n", 0


def _usable(name: str, folder: Path) -> str:
    """The name, if it is valid for a Python function and a file, and no implementation has it."""
    if not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_]*", name) or keyword.iskeyword(name) or len(name) > LONGEST:
        what = f"a letter, then letters, digits and _, {LONGEST} at the most"
        raise InputError(f"{name!r:.80} cannot name an implementation: a name is {what}, and no word of Python's")
    from softbench.cases import registry  # imports the operators, which other commands do not need

    folders = [resources.bundled_impls(), *([folder] if folder.is_dir() else [])]
    for variant in registry.find(folders):
        if variant.implementation == name:
            where = resources.shown(Path(variant.path))
            raise InputError(f"{name!r} is declared in {where} already; choose another name")
    return name


COMMAND = Command(
    "new",
    "write a commented implementation file that runs unchanged",
    (
        ("softbench new my_softmax", "a Triton kernel, in kernels/my_softmax.py"),
        ("softbench new my_softmax --language torch", "one with torch's own functions"),
    ),
    (
        argument("name", metavar="NAME", help="name of the implementation, and of its file"),
        argument("--language", choices=LANGUAGES, default=LANGUAGES[0], help="its language (default: %(default)s)"),
        argument("--folder", metavar="DIR", default="kernels", help="folder of the file (default: %(default)s)"),
    ),
    _run,
)
