"""`softbench new`: an implementation file, or an operator's, to start from; both run unchanged."""

import keyword
import re
import shlex
from importlib import resources as files
from pathlib import Path

from softbench import resources
from softbench.cli.command import Command, CommandResult, Options, argument
from softbench.texts import InputError

LANGUAGES = ("triton", "torch")
LONGEST = 60
RESERVED = {
    "operator": ("operator", "torch", "torch_eager"),
    "implementation": ("Unsupported", "float", "getattr", "kernel", "tl", "torch", "triton"),
}
"""Names in the templates, which a function of that name would hide."""
OWN_SHAPES = Path("shapes.yaml")
SHAPES = """profiles:
  {name}:
    description: {name}, timed
    groups:
      - operator: {name}
        dtype: [float32, float16]
        shapes: [[64, 512], [8, 781]]
"""


def _run(options: Options) -> CommandResult:
    if options.operator:
        return _operator(options)
    folder = Path(options.folder or "kernels")
    name = _usable(options.name, folder, "implementation")
    path = folder / f"{name}.py"
    _write(path, _template(options.language or LANGUAGES[0], name))
    text = f"written: {path}\ncheck and time it, without -k next to the others:\n\n"
    cases, more = "--softbench-columns=1024-4096", ""
    if OWN_SHAPES.exists():
        cases, more = "--softbench-profile=PROFILE", f"\nPROFILE is one of {OWN_SHAPES} that asks softmax\n"
    return text + f"  pytest --softbench --softbench-impls={shlex.quote(str(folder))} {cases} -k {name}\n{more}", 0


def _operator(options: Options) -> CommandResult:
    """An operator's file, and a shapes.yaml that asks for it if the folder has none."""
    from softbench.cases.operator_files import FOLDER

    if options.language:
        raise InputError("--language: an operator's file is written with torch; leave the option out")
    folder = Path(options.folder or FOLDER)
    name = _usable(options.name, folder, "operator")
    path = folder / f"{name}.py"
    _write(path, _template("operator", name))
    text = f"written: {path}\n"
    profile = SHAPES.format(name=name)
    if OWN_SHAPES.exists():
        text += (
            f"ask for it by a profile of {OWN_SHAPES}:\n\n{profile.partition(chr(10))[2]}\nthen check and time its baseline:\n\n"
        )
    else:
        _write(OWN_SHAPES, profile)
        text += f"written: {OWN_SHAPES}\ncheck and time its baseline:\n\n"
    place = "" if folder == Path(FOLDER) else f" --softbench-operators={shlex.quote(str(folder))}"
    return text + f"  pytest --softbench{place} --softbench-profile={name}\n", 0


def _template(which: str, name: str) -> str:
    template = files.files("softbench.cli") / "templates" / f"{which}.txt"
    return template.read_text(encoding="utf-8").replace("NAME", name)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        what = "exists, and is not overwritten; choose another name" if path.exists() else "is in the way"
        raise InputError(f"{path if path.exists() else path.parent}: {what}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be written ({getattr(error, 'strerror', error)})") from None


def _usable(name: str, folder: Path, what: str) -> str:
    """The name, if it is valid for a Python function and a file, and no implementation, or no operator, has it."""
    if not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_]*", name) or keyword.iskeyword(name) or len(name) > LONGEST:
        rule = f"a letter, then letters, digits and _, {LONGEST} at the most"
        raise InputError(f"{name!r:.80} cannot name an {what}: a name is {rule}, and no word of Python's")
    if name in RESERVED[what]:
        raise InputError(f"{name!r} cannot name an {what}: it has another meaning in the file; choose another name")
    # They import the operators, which other commands do not need.
    from softbench.cases import operator_files, operators, registry

    own = [folder] if folder.is_dir() else []
    if what == "operator":
        operator_files.load(own)
        if name in operators.names():
            declared = operators.of_file(name)
            where = f"declared in {resources.shown(declared.path)}" if declared else "one of softbench's own"
            raise InputError(f"{name!r} is {where} already; choose another name")
        return name
    operator_files.load(operator_files.beside(Path()))
    if name in operators.names():
        raise InputError(f"{name!r} is an operator, and -k {name} asks for all its cells; choose another name")
    for variant in registry.find([resources.bundled_impls(), *own]):
        if variant.implementation == name:
            where = resources.shown(Path(variant.path))
            raise InputError(f"{name!r} is declared in {where} already; choose another name")
    return name


COMMAND = Command(
    "new",
    "write a commented implementation file, or an operator's, that runs unchanged",
    (
        ("softbench new my_softmax", "a Triton kernel, in kernels/my_softmax.py"),
        ("softbench new my_softmax --language torch", "one with torch's own functions"),
        ("softbench new --operator my_gelu", "an operator of your own, in operators/my_gelu.py"),
    ),
    (
        argument("name", metavar="NAME", help="name of the implementation or operator, and of its file"),
        argument("--operator", action="store_true", help="write an operator, and shapes.yaml if there is none"),
        argument("--language", choices=LANGUAGES, help=f"language of an implementation (default: {LANGUAGES[0]})"),
        argument("--folder", metavar="DIR", help="folder of the file (default: kernels, or operators)"),
    ),
    _run,
)
