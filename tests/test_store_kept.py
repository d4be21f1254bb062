"""Runs that are kept: compressed, read like others, and not written to."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pytest
from builders import passport, softmax_case, timed

from softbench import store
from softbench.store import StoreError


def written(folder: Path) -> Path:
    writer = store.Writer.create(folder, passport())
    writer.append([timed(softmax_case(16, 256), "a", 1e5)])
    return writer.path


def compressed(folder: Path, data: bytes, name: str = "run-1") -> Path:
    path = folder / f"{name}.jsonl.gz"
    path.write_bytes(data)
    return path


def test_a_run_that_is_kept_may_be_compressed(tmp_path: Path) -> None:
    plain = written(tmp_path)
    kept = compressed(tmp_path, gzip.compress(plain.read_bytes()), plain.stem)
    assert store.read(kept) == store.read(plain)
    assert store.header(kept) == store.header(plain)
    plain.unlink()
    assert store.find(tmp_path, plain.stem) == store.find(tmp_path, "latest") == kept
    assert store.run_name(kept) == store.run_name(plain) == plain.stem
    with pytest.raises(StoreError, match=rf"in {tmp_path}; the newest there: {plain.stem}$"):
        store.find(tmp_path, "none")


def test_a_compressed_run_is_not_added_to(tmp_path: Path) -> None:
    kept = compressed(tmp_path, gzip.compress(written(tmp_path).read_bytes()))
    before = kept.read_bytes()
    with pytest.raises(StoreError, match="gunzip it to go on"):
        store.mend(kept)
    assert kept.read_bytes() == before


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"no gzip", "cannot be read"),
        (gzip.compress(b"x" * 10**5, mtime=0)[:-9], "no whole gzip file"),
        (gzip.compress(b"", mtime=0)[:10] + b"\xff" * 20, "no whole gzip file"),
        (gzip.compress(bytes(2**20), mtime=0), "holds more than 0 MiB"),
    ],
    ids=["empty", "text", "cut", "damaged", "large"],
)
def test_a_compressed_file_that_is_no_run(tmp_path: Path, monkeypatch: Any, data: bytes, said: str) -> None:
    monkeypatch.setattr(store.lines, "MOST_BYTES", 2**19)
    with pytest.raises(StoreError, match=said) as refusal:
        store.read(compressed(tmp_path, data))
    assert "\n" not in str(refusal.value)


def test_of_runs_written_in_the_same_moment_the_latest_is_the_last_by_name(tmp_path: Path) -> None:
    """As in a clone, whose files are a few ticks apart."""
    names = [f"20260101-12000{number}-x" for number in (1, 3, 2)]
    runs = [store.Writer.create(tmp_path, passport(run_id=name)).path for name in names]
    for path in runs:
        os.utime(path, ns=(10**18, 10**18))
    assert store.find(tmp_path, "latest") == runs[1]
    os.utime(runs[0], ns=(10**18 + 1, 10**18 + 1))
    assert store.find(tmp_path, "latest") == runs[0]
