"""The bundled files, bounded reading of files, and messages about a file or a wrong word in it."""

import difflib
from collections.abc import Iterable
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def bundled_impls() -> Path:
    """The folder of family folders that comes with softbench; FileNotFoundError if the installation lacks it."""
    return _bundled("impls")


def bundled_operators() -> Path:
    """The folder of the operators that come as files with softbench; FileNotFoundError if the installation lacks it."""
    return _bundled("operators")


def bundled_shapes() -> Path:
    """The shapes.yaml that comes with softbench; FileNotFoundError if the installation lacks it."""
    return _bundled("shapes.yaml")


def shapes_of(folder: Path) -> Path:
    """The shapes.yaml of a folder, else the bundled one."""
    own = folder / "shapes.yaml"
    return (own if own.is_file() else bundled_shapes()).resolve()


def bundled_published() -> Path:
    """The folder of published figures that comes with softbench; FileNotFoundError if the installation lacks it."""
    return _bundled("reports/published")


def _bundled(name: str) -> Path:
    # A wheel has a copy inside the package; a checkout and an editable install have the original next to it.
    wheel, checkout = _PACKAGE / "_bundled" / name, _PACKAGE.parent / name
    for path in (wheel, checkout):
        if path.exists():
            return path
    raise FileNotFoundError(f"this softbench lacks its {name}: neither {wheel} nor {checkout} exists; reinstall it")


def shown(path: Path) -> str:
    """The path as one would type it here: relative if it is below the working directory."""
    try:
        return path.absolute().relative_to(Path.cwd()).as_posix()
    except (OSError, ValueError):  # the working directory may be gone
        return str(path)


def listed(folder: Path, pattern: str) -> list[Path]:
    """The files of a folder whose names match, sorted by name; none if the folder cannot be read."""
    try:
        return sorted(path for path in folder.glob(pattern) if path.is_file())
    except (OSError, ValueError):  # a name too long, a NUL
        return []


MAX_BYTES = 2**24
"""Most bytes of a file that people write. A sparse file of 6 GB was once read whole, and /dev/zero has no end."""


def read_bounded(path: Path, error: type[Exception]) -> bytes:
    """The content of a plain file of at most `MAX_BYTES`. Raises `error` with one line that says what is wrong."""
    try:
        if path.exists() and not path.is_file():
            raise error(f"{shown(path)}: is no plain file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as failure:
        raise error(f"{shown(path)}: cannot be read: {failure.strerror}") from None
    if len(data) > MAX_BYTES:
        raise error(f"{shown(path)}: is longer than {MAX_BYTES >> 20} MiB, the most for such a file")
    return data


def read_utf8(path: Path, error: type[Exception]) -> str:
    """The text of a UTF-8 file of at most `MAX_BYTES`, without a byte order mark. Raises `error` like `read_bounded`."""
    data = read_bounded(path, error)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        line = failure.object[: failure.start].count(b"\n") + 1
        bad = failure.object[failure.start]
        raise error(f"{shown(path)}:{line}: byte 0x{bad:02x} is not UTF-8; save the file as UTF-8") from None


def choose_from(word: str, choices: Iterable[str]) -> str:
    """The end of a message about an unknown word: the nearest choice, if one is near, and all choices."""
    known = list(choices)
    near = difflib.get_close_matches(word, known, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}choose from {', '.join(known)}"
