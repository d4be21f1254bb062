"""The page that a run leaves next to its records."""

import contextlib
from collections.abc import Callable
from pathlib import Path

from softbench import packages
from softbench.model import Run
from softbench.texts import InputError


def write(run: Run, path: Path, note: Callable[[str], None]) -> Path | None:
    """Write the page, and the same as latest.html. None, after one line to note, if that is impossible."""
    from softbench.records import claims
    from softbench.render import report

    try:
        published = claims.bundled()
    except InputError as error:
        note(f"{error}; the page goes without published figures")
        published = ()
    try:
        page = report.render(run, published=published)
    except ModuleNotFoundError as error:
        note(f"no page is written: {packages.advice(error.name or '')}; then: softbench report latest")
        return None
    for target in (path, path.with_name("latest.html")):
        try:
            target.write_text(page, encoding="utf-8")
        except OSError as error:
            note(f"{target} cannot be written ({error.strerror}); the records are kept")
            with contextlib.suppress(OSError):
                target.unlink()  # it may be incomplete
            return None
    return path
