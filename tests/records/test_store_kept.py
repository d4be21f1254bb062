"""Runs that are kept: compressed, read like others, and not written to."""

import gzip
import lzma
import os
from dataclasses import replace

import pytest
from support.builders import passport, softmax_case, timed, written
from support.grids import over
from support.paths import KEPT

from softbench.model import Run
from softbench.records import store
from softbench.records.store import StoreError

RECORD = timed(softmax_case(16, 256), "a", 1e5)


COMPRESS = {".gz": gzip.compress, ".xz": lzma.compress}


def compressed(folder, suffix, data, name="run-1"):
    path = folder / f"{name}.jsonl{suffix}"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_run_that_is_kept_may_be_compressed_and_is_then_not_added_to(tmp_path, suffix):
    plain = written(tmp_path, RECORD)
    kept = compressed(tmp_path, suffix, COMPRESS[suffix](plain.read_bytes()), plain.stem)
    assert store.read(kept) == store.read(plain)
    assert store.header(kept) == store.header(plain)
    plain.unlink()
    assert store.find(tmp_path, plain.stem) == store.find(tmp_path, "latest") == kept
    assert store.run_name(kept) == store.run_name(plain) == plain.stem
    with pytest.raises(StoreError, match=rf"in {tmp_path}; the newest there: {plain.stem}$"):
        store.find(tmp_path, "none")
    before = kept.read_bytes()
    with pytest.raises(StoreError, match="unpack it to go on"):
        store.mend(kept)
    assert kept.read_bytes() == before


NO_RUN = [
    (".gz", b"", "is empty"),
    (".gz", b"no gzip", "cannot be read"),
    (".gz", gzip.compress(b"x" * 10**5, mtime=0)[:-9], "no whole gz file"),
    (".gz", gzip.compress(b"", mtime=0)[:10] + b"\xff" * 20, "no whole gz file"),
    (".gz", gzip.compress(bytes(2**20), mtime=0), "holds more than 0 MiB"),
    (".xz", b"", "no whole xz file"),
    (".xz", b"no xz", "no whole xz file"),
    (".xz", lzma.compress(b"x" * 10**5, preset=0)[:-9], "no whole xz file"),
    (".xz", lzma.compress(b"x" * 10**5, preset=0)[:40] + b"\xff" * 20, "no whole xz file"),
    (".xz", lzma.compress(b"x", preset=0) + b"more", "no whole xz file"),
    (".xz", lzma.compress(b"x", preset=9), "no whole xz file"),  # its dictionary takes more than the bound
    (".xz", lzma.compress(bytes(2**20), preset=0), "holds more than 0 MiB"),
]


@over("suffix, data, said", NO_RUN)
def test_a_compressed_file_that_is_no_run(tmp_path, monkeypatch, suffix, data, said):
    monkeypatch.setattr(store.lines, "MOST_BYTES", 2**19)
    with pytest.raises(StoreError, match=said) as refusal:
        store.read(compressed(tmp_path, suffix, data))
    assert "\n" not in str(refusal.value)


def test_of_runs_written_in_the_same_moment_the_latest_is_the_last_by_name(tmp_path):
    """As in a clone, whose files are a few ticks apart."""
    names = [f"20260101-12000{number}-x" for number in (1, 3, 2)]
    runs = [store.Writer.create(tmp_path, passport(run_id=name)).path for name in names]
    for path in runs:
        os.utime(path, ns=(10**18, 10**18))
    assert store.find(tmp_path, "latest") == runs[1]
    os.utime(runs[0], ns=(10**18 + 1, 10**18 + 1))
    assert store.find(tmp_path, "latest") == runs[0]


SINCE = "2026-11-22T16:00"
"""From here on a run that is kept says how many cases it was asked for, and names a commit without local changes."""


def fault(run):
    header, cases = run.passport, {record.case for record in run.records}
    if header.cases not in ((len(cases),) if header.started >= SINCE else (0, len(cases))):
        return f"{len(cases)} of {header.cases} cases"
    if header.started < SINCE:
        return ""
    if not header.commit or header.commit.endswith("+"):
        return f"commit {header.commit or 'unknown'}"
    for operator in {case.operator for case in cases}:
        own = [case for case in cases if case.operator == operator]
        took_part = [{r.variant.id for r in run.records if (r.case, r.role) == (case, "entrant")} for case in own]
        if any(some != took_part[0] for some in took_part):
            return f"cells of {operator} are missing"
    return ""


@pytest.mark.slow
def test_every_kept_run_is_whole_and_from_now_on_of_a_clean_commit():
    found = {path.name: fault(store.read(path)) for path in KEPT}
    assert found
    assert not {name: why for name, why in found.items() if why}


def test_a_run_that_was_edited_is_not_kept():
    cases = [softmax_case(16, 256), softmax_case(32, 256)]
    records = [timed(case, name, 1e5) for case in cases for name in "ab"]
    whole = passport(started=f"{SINCE}:01+00:00", cases=2)
    assert not fault(Run(whole, tuple(records)))
    assert fault(Run(whole, tuple(records[:2]))) == "1 of 2 cases"
    assert fault(Run(whole, tuple(records[:3]))) == "cells of softmax are missing"
    assert fault(Run(replace(whole, cases=0), tuple(records))) == "2 of 0 cases"
    for commit in ("", "0123abc+"):
        assert fault(Run(replace(whole, commit=commit), tuple(records))).startswith("commit ")
    assert not fault(Run(replace(whole, started="2026-11-21", cases=0, commit="0123abc+"), tuple(records[:3])))
