"""`--softbench-watch`: the run again whenever a source is saved, in the same processes, compared with the last one."""

import os
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from softbench.analysis.leaderboard.formatting import plural
from softbench.cases.sources import SUFFIXES
from softbench.model import Run, Status, Variant
from softbench.resources import shown
from softbench.session import multi_gpu
from softbench.session.bench import Warm
from softbench.session.settings import Settings, SettingsError

POLL_S = 0.2
SETTLED_S = 0.1
"""A file is read once it has not changed for this time: an editor may write it in parts."""

State = dict[Path, tuple[int, int]]
"""Of each source its time of change in ns, and its length."""


@dataclass(eq=False)
class Watch:
    """What the runs of a command share, as a plugin of pytest.

    only  the files whose cells run this time; None: all
    last  the records of the last run in which a cell of a file passed
    entries  the files of implementations
    """

    warm: Warm = field(default_factory=Warm)
    only: frozenset[Path] | None = None
    last: dict[Path, Path] = field(default_factory=dict)
    is_again: bool = False
    entries: frozenset[Path] = frozenset()
    seed: int | None = None
    _places: tuple[Path, ...] = ()
    _state: State = field(default_factory=dict)

    def begin(self, folders: Sequence[Path], shapes: Path) -> None:
        """A run is about to read its sources: what is saved from now on is not in it."""
        self._places = (*folders, shapes)
        self._state = state(self._places)

    def compared(self, chosen: Settings) -> Settings:
        """The settings of this run: against the last one of the same file, and without a page."""
        if not self.is_again:
            return chosen
        baseline = next((str(self.last[path]) for path in sorted(self.only or self.last) if path in self.last), "")
        return replace(chosen, baseline=baseline, resume="", seed=self.seed, no_page=True, is_again=True)

    def takes(self, variant: Variant) -> bool:
        return self.only is None or Path(variant.path) in self.only

    def end(self, records: Path, run: Run, variants: Iterable[Variant]) -> None:
        """A run of some variants has ended, with its records in that file."""
        passed = {r.variant.implementation for r in run.records if r.status is Status.PASSED}
        self.last |= {Path(v.path): records for v in variants if v.implementation in passed and self.takes(v)}

    def go_on(self, arguments: Sequence[str], status: int | pytest.ExitCode) -> int | pytest.ExitCode:
        """Run again and again until Ctrl-C; the exit code of the last run that came to its end."""
        self.is_again = True
        try:
            while status != pytest.ExitCode.INTERRUPTED:
                print(f"\nsoftbench: watches {self._described()}; Ctrl-C ends", flush=True)
                self.only = affected(self._wait(), self.entries)
                status = pytest.main([*arguments, "-q"], plugins=[self])
        except KeyboardInterrupt:
            print()
        finally:
            self.warm.close()
        return status

    def _described(self) -> str:
        return f"{plural(len(self._state), 'file')} in {', '.join(map(shown, self._places))}"

    def _wait(self) -> set[Path]:
        """The sources that were saved, added or removed since the last run began."""
        before = now = self._state
        while now == before:
            time.sleep(POLL_S)
            now = state(self._places)
        while now != self._state:
            self._state = now
            time.sleep(SETTLED_S)
            now = state(self._places)
        return {path for path in now.keys() | before.keys() if now.get(path) != before.get(path)}


def joined(config: pytest.Config, chosen: Settings) -> Watch | None:
    """The watch of this command, made by its first run, with the sources as they are now. Raises SettingsError."""
    if not chosen.watch:
        return None
    if chosen.debug or multi_gpu.crew_of(config):
        raise SettingsError("--softbench-watch goes neither with --softbench-debug nor with -n; leave one out")
    watch = of(config)
    if watch is None:
        watch = Watch()
        config.pluginmanager.register(watch, "softbench-watch")
    watch.begin((*chosen.impls, *chosen.operators), chosen.shapes)
    return watch


def of(config: pytest.Config) -> Watch | None:
    """The watch that a run belongs to, if it belongs to one."""
    return next((plugin for plugin in config.pluginmanager.get_plugins() if isinstance(plugin, Watch)), None)


def state(places: Sequence[Path]) -> State:
    """Of all sources in some folders, and of single files."""
    found: State = {}
    for place in places:
        files = [place] if place.is_file() else []
        for folder, folders, names in os.walk(place):
            folders[:] = [name for name in folders if name != "__pycache__" and name[0] != "."]
            files += [Path(folder, name) for name in names if name.endswith(SUFFIXES)]
        for path in files:
            try:
                entry = path.stat()
            except OSError:  # removed just now
                continue
            found[path] = entry.st_mtime_ns, entry.st_size
    return found


def affected(saved: Collection[Path], entries: Collection[Path]) -> frozenset[Path] | None:
    """The files of implementations that have to run again, None for all: docs/how-to.md, "Change a kernel and see at once"."""
    found: set[Path] = set()
    for path in saved:
        users = {entry for entry in entries if entry.parent in path.parents}
        is_new = path.suffix == ".py" and path.is_file() and any(entry.parent == path.parent for entry in entries)
        if path in entries or (is_new and path.name[0] != "_"):
            found.add(path)
        elif users:
            found |= users
        else:
            return None
    return frozenset(found)
