"""What a file may hold at most; what is written can be read; who else writes to a run's file."""

import gzip
import json
import lzma
from dataclasses import replace

import pytest
from support.builders import ended, passport, samples, softmax_case, timed, variant, written

from softbench.cases import registry
from softbench.model import KernelResources, Samples, Status
from softbench.records import store
from softbench.records.store import StoreError, lines
from softbench.texts import MOST_TEXT

CASE = softmax_case(16, 256)


def with_line(folder, **changed):
    path = written(folder, timed(CASE, "a", 1e5))
    header, row = path.read_text().splitlines()
    path.write_text(f"{header}\n{json.dumps(json.loads(row) | changed)}\n")
    return path


TELEMETRY = [None, None, None, None, ""]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"notes": ["n"] * 1001}, "more than 1000 entries"),
        ({"kernels": [["k", 1, 2, 3]] * 1001}, "more than 1000 entries"),
        ({"telemetry": [TELEMETRY] * 1001}, "more than 1000 entries"),
        ({"samples": [{"clock": "graph", "launches": 1, "ns": [[1] * 20_000]}]}, "more than 20000 samples"),
        ({"samples": [{"clock": "graph", "launches": 1, "ns": [[1], *[[]] * 20_000]}]}, "more than 20000 samples"),
        ({"reason": "x" * 2**20}, "longer than 1024 KiB"),
    ],
    ids=["notes", "kernels", "telemetry", "samples", "placements", "line"],
)
def test_a_record_is_bounded(tmp_path, changed, said):
    with pytest.raises(StoreError, match=f":2: .*{said}"):
        store.read(with_line(tmp_path, **changed))


def test_texts_of_a_record_are_cut(tmp_path):
    path = with_line(tmp_path, notes=["n" * 10_000], kernels=[["k" * 10_000, 1, 2, 3]], known_failure="f" * 10_000)
    (record,) = store.read(path).records
    assert {len(t) for t in (record.notes[0], record.kernels[0].name, record.known_failure)} == {MOST_TEXT}
    assert record.notes[0].endswith("n…")


@pytest.mark.parametrize(("suffix", "opened"), [(".gz", gzip.open), (".xz", lzma.open)], ids=["gz", "xz"])
def test_a_small_file_that_unpacks_to_a_large_one_is_refused(tmp_path, suffix, opened):
    path = tmp_path / f"bomb.jsonl{suffix}"
    with opened(path, "wb") as file:
        for _ in range(1 + lines.MOST_BYTES // 2**24):
            file.write(b"\n" * 2**24)
    assert path.stat().st_size < 2**19
    with pytest.raises(StoreError, match="holds more than 128 MiB"):
        store.read(path)


UNFIT = {
    "no time": replace(timed(CASE, "a", 1e5), samples=(Samples("trial", 1, ((0, 5),)),)),
    "infinite parameter": ended(CASE, "a", variant=variant("a", params=(("k", 1e999),))),
    "kernel of 80 bits": timed(CASE, "a", 1e5, kernels=(KernelResources("k", 2**80, 0, 0),)),
    "digits without end": timed(CASE, "a", 1e5, kernels=(KernelResources("k", 16**5000, 0, 0),)),
    "too many kernels": timed(CASE, "a", 1e5, kernels=(KernelResources("k", 1, 0, 0),) * 1001),
    "too long": timed(CASE, "a", 1e5, notes=("n" * 4000,) * 300),
}


@pytest.mark.parametrize("what", [what for what in UNFIT if "parameter" not in what])
def test_what_could_not_be_read_is_recorded_as_an_error(tmp_path, what):
    """And costs its own cell: the records of the others are written, and all of the run can be read."""
    found = [store.storable(record) for record in (timed(CASE, "b", 1e5), UNFIT[what])]
    assert found[1].status is Status.RUNTIME_ERROR
    assert found[1].reason.startswith("its record cannot be kept: ")
    assert (found[1].variant.id, found[1].samples) == ("a", ())
    assert list(store.read(written(tmp_path, *found)).records) == found


def test_a_variant_that_cannot_be_named_in_a_file_is_refused_before_it_is_written():
    with pytest.raises(StoreError, match="cannot be inf"):
        store.storable(UNFIT["infinite parameter"])


def test_a_record_is_kept_as_it_will_be_read(tmp_path):
    long = store.storable(ended(CASE, "a", reason="a\x1b[31m" + "x" * 60_000_000))
    assert len(long.reason) == MOST_TEXT
    assert long.reason.startswith("a?[31mx")
    whole = store.storable(timed(CASE, "b", 1e5, samples=(samples(1e5), samples(2e5, "call"))))
    assert list(store.read(written(tmp_path, long, whole)).records) == [long, whole]


@pytest.fixture
def writer(tmp_path):
    found = store.Writer.create(tmp_path, passport())
    found.append([timed(CASE, "a", 1e5)])
    return found


FORGED = lines.cell_line(ended(CASE, "a", Status.INCORRECT, "forged"))


@pytest.mark.parametrize("how", ["appended", "overwritten", "emptied", "removed"])
def test_what_another_process_did_to_a_run_is_undone(writer, how):
    before = writer.path.read_bytes()
    writer.path.write_bytes({"appended": before + FORGED, "overwritten": before[:-9] + b" " * 9}.get(how, b""))
    if how == "removed":
        writer.path.unlink()
    assert writer.hold() == ("was removed" if how == "removed" else "was changed")
    assert writer.path.read_bytes() == before
    assert writer.hold() == ""
    writer.append([timed(CASE, "b", 1e5)])
    assert [r.variant.id for r in store.read(writer.path).records] == ["a", "b"]
    assert [path.name for path in writer.path.parent.iterdir()] == [writer.path.name]


def test_a_writer_of_an_old_run_holds_it_to_what_it_found(writer):
    later = store.Writer(writer.path)
    assert later.hold() == ""
    later.relabel(passport(cases=7))
    before = writer.path.read_bytes()
    writer.path.write_bytes(before + FORGED)
    assert later.hold() == "was changed"
    assert writer.path.read_bytes() == before


def test_two_commands_do_not_add_to_one_run(writer):
    writer.lock()
    other = store.Writer(writer.path)
    with pytest.raises(StoreError, match=r"another command is adding to this run; wait until it ends$"):
        other.lock()
    writer.relabel(passport(cases=7))  # which puts another file in its place
    with pytest.raises(StoreError, match="another command is adding"):
        other.lock()
    writer.lock()
    writer.unlock()
    other.lock()
    other.unlock()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        *((number, "64 bits, cannot be used here") for number in ("1e999", 2**63, hex(16**5000))),
        (f"'{'a' * 500}'", "make an id of more than 500 characters; shorten them"),
    ],
    ids=["infinite", "64-bits", "digits", "word"],
)  # fmt: skip
def test_a_parameter_that_no_record_could_hold_is_refused(tmp_path, value, said):
    declared = f"@implementation(operator='softmax', params={{'k': [{value}]}})\ndef f(case, k): ...\n"
    (tmp_path / "fam").mkdir()
    (tmp_path / "fam" / "a.py").write_text(f"from softbench import implementation\n{declared}")
    with pytest.raises(registry.RegistryError, match=f"a.py:2: f: .*{said}$"):
        registry.find([tmp_path])
