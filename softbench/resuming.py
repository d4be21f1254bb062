"""The run that --softbench-resume goes on with: found, held against this machine, and put in order."""

from __future__ import annotations

from collections.abc import Callable

from softbench import parts, passport, store
from softbench.model import Passport
from softbench.settings import Settings, SettingsError
from softbench.texts import InputError


def reopen(settings: Settings, note: Callable[[str], None]) -> tuple[store.Writer, Passport]:
    """The file of the run, which no other command may add to any more, and its passport. Raises InputError."""
    path = store.find(settings.reports, settings.resume)
    writer = store.Writer(path)
    writer.lock()
    try:
        found = store.header(path)
        if why := passport.difference(found):
            raise SettingsError(f"--softbench-resume: {path.name} cannot be gone on with: {why}; start a new run")
        for damage in store.mend(path):
            note(f"{damage}: set aside in {path.name}.damaged")
        parts.absorb(path, note)
        writer.lock()  # mending may have put another file in its place
        writer.hold()
    except InputError:
        writer.unlock()
        raise
    return writer, found
