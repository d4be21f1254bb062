import contextlib
import json
import os

import pytest
from hypothesis import given
from support.builders import ended, roof_of, timed, variant, written
from support.fuzzing import CASE, HARD, RANDOM, WIDE, damaged, one_line, rendered, tried, twisted
from support.grids import over

from softbench.model import Calibration, KernelResources, Record, Samples, Status, Telemetry
from softbench.records import store
from softbench.records.store import StoreError

ODD = (Samples("graph", 20, ((101, 102), (99,), ()), "warm", 3), Samples("call", 1, ((7,),)))
READ = (Calibration("graph", (20, 99), (21, 98)), Calibration("device", fault="f"))
REFUSING = variant("torch_eager", params=(("warps", 4), ("a", "b")))
RECORDS = [
    timed(CASE, "mine", 5e4, notes=("n",), telemetry=(Telemetry(1980, 3201, 512, 61, "power_cap"), Telemetry())),
    timed(CASE, "other", 5e4, calibrations=READ),
    timed(CASE, "torch_eager", 9e4, kernels=(KernelResources("k<float>", 32, 8, 49152),), best_of=4),
    roof_of(CASE, 4e4),
    timed(WIDE, "mine", 1, samples=ODD),
    ended(WIDE, "torch_eager", variant=REFUSING),
    ended(HARD, "mine", Status.INCORRECT, "nan", known_failure="NaN: no guard"),
]


@pytest.fixture(scope="module")
def run(module_path):
    path = written(module_path, *RECORDS, run_id="good")
    return [json.loads(row) for row in path.read_text().splitlines()]


def spoilt(random, lines):
    how = random.randint(0, 3)
    if how != 0:
        lines, at = [*lines], random.randint(0, len(lines) - 1)
        lines[at] = twisted(random, lines[at])
    text = "\n".join(json.dumps(line, ensure_ascii=random.random() < 0.5) for line in lines) + "\n"
    data = text.encode("utf-8", "surrogatepass")
    return damaged(random, data) if how in (0, 3) else data


@tried(250)
@given(random=RANDOM)
def test_records(module_path, run, capsys, random):
    path = module_path / "records.jsonl"
    path.write_bytes(spoilt(random, run))
    try:
        found = store.read(path)
    except StoreError as error:
        one_line(error)
    else:
        assert all(isinstance(record, Record) for record in found.records)
    rendered(capsys, "table", str(path), "--format", random.choice(["text", "markdown", "csv"]))


@tried(260)
@given(random=RANDOM)
def test_what_else_is_made_of_runs(module_path, run, capsys, random):
    own = module_path / "several"
    own.mkdir(exist_ok=True)
    paths = [own / f"{number}.jsonl" for number in range(2)]
    for path in paths:
        path.write_bytes(spoilt(random, run) if random.random() < 0.75 else json_lines(run))
    one, other = map(str, paths)
    output = module_path / "made"
    output.unlink(missing_ok=True)
    to = ("--output", str(output))
    form = random.choice(["markdown", "csv"])
    cell = f"{random.choice(RECORDS).case.id}::{random.choice(RECORDS).variant.implementation}"
    made = [
        *(["report", *runs, *to] for runs in ([one], [one, other])),
        ["compare", one, other, "--all", *to],
        ["compare", one, other, "--format", form],
        ["history", str(own), "--cells", "*", *to],
        ["show", cell, "--run", one],
        ["figure", one, random.choice(["ratio", "shapes", "clocks", "drift"]), *to],
        ["badge", one, *to],
    ]
    if rendered(capsys, *random.choice(made)) and output.exists():
        assert "<script>alert" not in output.read_text()


def json_lines(lines):
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


@tried(100)
@given(random=RANDOM)
def test_a_run_is_mended_unless_its_header_is_gone(module_path, run, random):
    path = module_path / "mended.jsonl"
    path.write_bytes(spoilt(random, run))
    try:
        header = store.header(path)
        before = path.read_bytes().split(b"\n")
    except StoreError as error:
        one_line(error)
        return
    said = store.mend(path)
    assert store.read(path).passport == header
    assert set(path.read_bytes().split(b"\n")) - {b""} <= set(before)
    assert store.mend(path) == ()
    assert len(said) <= len(before)
    store.Writer(path).append([RECORDS[0]])
    assert store.read(path).records[-1].case == CASE


@over("end", ["", "\n", "\0\0", "\n\0\0"])
def test_a_run_cut_at_every_byte(module_path, run, monkeypatch, end):
    """The next cell is never glued to a torn one, nor is one dropped whose line lacks only its end."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # thousands of times
    torn = json.dumps(run[6] | {"reason": "ü"}, ensure_ascii=False)
    whole = json_lines([run[0], run[5]]) + torn.encode()
    path = module_path / "cut.jsonl"
    start = whole.index(b"\n") + 1
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size] + end.encode())
        try:
            found = store.read(path)
        except StoreError as error:
            one_line(error)
            assert size < start - 1 or end
            continue
        assert len(found.records) == whole_cells(path.read_bytes())
        store.Writer(path).append([RECORDS[-1]])
        assert [record.case for record in store.read(path).records] == [*(record.case for record in found.records), HARD]


def whole_cells(data):
    found = 0
    for row in data.split(b"\n")[1:]:
        with contextlib.suppress(ValueError):
            json.loads(row)
            found += 1
    return found
