"""A hand-over is read as data; which of its launches a profiler sees, and the order of a graph's nodes."""

import ctypes
import json
import os
import random
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.grids import over

from softbench.doctor import examples
from softbench.measure.sealed import driver, handover
from softbench.measure.sealed.addresses import BASES, PIECE, SPAN, overlap, rounded, without
from softbench.measure.sealed.capture import Capture, Unsealable, _slack
from softbench.measure.sealed.handover import BadHandOver, Builder, Function, HandOver, Node, Output, Package, Stretch, Unit
from softbench.measure.sealed.images import _whole
from softbench.measure.sealed.rebuild import _in_order
from softbench.measure.sealed.stream import Stream, first_launches, stream
from softbench.measure.worker import loading

BASE = BASES[0]
AT = BASE + PIECE


def unit(**changes):
    output = Output(AT + 512, 64, 0, (4, 4), (4, 1), "float32")
    node = Node(driver.KERNEL, Stretch(8, 8), 0, (4, 1, 1), (128, 1, 1), 0, 0)
    edges = ((0, 1, 0),)
    whole = Unit((node, Node(driver.EMPTY, Stretch(0, 0))), edges, ((AT,),), ((output,),), (0,), ((AT + 576, 448),))
    return replace(whole, **changes)


def package(**changes):
    function = Function(Stretch(0, 4), 0, ((0, 8),), ((8, 0),))
    whole = HandOver(BASE, (Stretch(0, 8),), (function,), (((4, 16),),), ((AT, PIECE),), ((AT + 1024, 16, 0),), (unit(), unit()))
    return replace(whole, **changes)


def written(folder, found):
    builder = Builder()
    builder.add(bytes(range(128)))
    builder.write(folder / "hand-over", found)
    return folder / "hand-over"


def node(**changes):
    first, *others = unit().nodes
    return unit(nodes=(replace(first, **changes), *others))


def timed(found):
    return package(units=(unit(), found))


NOTHING = unit(nodes=(), edges=(), inputs=(), outputs=(), pieces=(), slack=())


def output(**changes):
    return unit(outputs=((replace(unit().outputs[0][0], **changes),),))


FORGED = {
    "another range": package(base=BASE + PIECE, pieces=(), workspaces=(), units=(NOTHING, NOTHING)),
    "memory beyond the range": package(pieces=((BASE + SPAN - PIECE, PIECE),)),
    "a part of a piece": package(pieces=((AT + 4096, PIECE),)),
    "memory without room for a guard": package(pieces=((AT, PIECE), (AT + PIECE, PIECE))),
    "another's code": package(functions=(replace(package().functions[0], image=1),)),
    "code outside of the file": package(images=(Stretch(0, 1 << 40),)),
    "code before the file": package(images=(Stretch(-8, 8),)),
    "an attribute outside of the file": package(attributes=(((4, 120),),)),
    "a workspace of others": package(workspaces=((BASE + SPAN, 16, 0),)),
    "a workspace longer than the file": package(workspaces=((AT, 1 << 20, 0),)),
    "thousands of pieces": package(pieces=tuple((AT + 2 * number * PIECE, PIECE) for number in range(5001))),
    "thousands of workspaces": package(workspaces=((AT, 16, 0),) * 5001),
    "thousands of gaps": timed(unit(slack=((AT, 1),) * 5001)),
    "no graph": package(units=()),
    "many graphs": package(units=(unit(),) * 9),
    "no blocks": timed(node(grid=(0, 1, 1))),
    "more threads than a block has": timed(node(block=(4096, 1, 1))),
    "more shared memory than there is": timed(node(shared=1 << 30)),
    "an unknown kernel": timed(node(function=7)),
    "an unknown node": timed(node(kind=3)),
    "parameters of another kernel": timed(node(raw=Stretch(8, 16))),
    "an edge to nowhere": timed(unit(edges=((0, 9, 0),))),
    "an edge to itself": timed(unit(edges=((0, 0, 0),))),
    "an output beyond its memory": timed(output(size=2 * PIECE)),
    "an output of negative size": timed(output(shape=(-4, 4))),
    "an input of others": timed(unit(inputs=((0x7F0000000000,),))),
    "slack of others": timed(unit(slack=((BASE, 64),))),
    "unknown memory": timed(unit(pieces=(4,))),
}


def test_what_was_captured_is_read_as_it_was_written(tmp_path):
    found = handover.read(written(tmp_path, package()))
    assert found.found == package()
    assert found.at(Stretch(8, 4)) == bytes((8, 9, 10, 11))


def test_a_digest_admits_only_the_checked_file(tmp_path):
    digest = handover.read(written(tmp_path, package())).digest
    assert handover.read(tmp_path / "hand-over", digest).found == package()
    with pytest.raises(BadHandOver, match="not the one that was checked"):
        handover.read(written(tmp_path, package(images=())), digest)


def test_a_full_disk_costs_the_seal_alone():
    with pytest.raises(Unsealable, match="cannot be written: No space left on device"):
        Capture(SimpleNamespace(), lambda address: True).write(Path("/dev/full"), BASE, (), (), (), 0)


@over("what", FORGED)
def test_a_forged_hand_over_is_refused(tmp_path, what):
    with pytest.raises(BadHandOver, match="it names"):
        handover.read(written(tmp_path, FORGED[what]))


@over("example", [e for e in examples.EXAMPLES if e.word.startswith(examples.FORGED)])
def test_what_the_doctors_cheats_forge_is_refused(monkeypatch, tmp_path, example):
    apart = AT + 2 * PIECE
    third = unit(inputs=((apart,),), outputs=output(address=apart + 512).outputs, pieces=(1,), slack=())
    right = package(pieces=((AT, PIECE), (apart, PIECE)), units=(unit(), unit(), third))
    assert handover.other_work(handover.read(written(tmp_path, right)).found) == ""
    with monkeypatch.context() as patch:
        patch.setattr(Builder, "write", Builder.write)
        loading.load(examples.CHEATS / "forged_handovers.py", example.name)(None)
        forged = written(tmp_path, right)
    try:
        why = handover.other_work(handover.read(forged).found)
    except BadHandOver as error:
        why = str(error)
    assert re.search(example.word.removeprefix(examples.FORGED), why)


def test_timed_launches_do_the_work_of_the_checked_ones():
    first, end = unit().nodes

    def other_work(*nodes):
        return handover.other_work(package(units=(unit(), unit(), unit(nodes=nodes, outputs=unit().outputs * 2))))

    assert other_work(first, first, end) == ""
    for nodes in ((first, replace(first, kind=driver.COPY)), (first, replace(first, grid=(1, 1, 1))), (first, end)):
        assert "2 launches are not 2 times" in other_work(*nodes)
    assert handover.other_work(timed(unit(nodes=(end,))))


def test_only_plain_files_are_read(tmp_path):
    right = written(tmp_path, package())
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(right)
    for name in ("pipe", "link", "missing", "."):
        with pytest.raises(BadHandOver):
            handover.read(tmp_path / name)


def test_damaged_files_are_refused_or_read_but_nothing_else(tmp_path):
    right, rng = written(tmp_path, package()).read_bytes(), random.Random(1)
    for _ in range(300):
        damaged = bytearray(right[: rng.choice([len(right), rng.randrange(len(right))])])
        for _ in range(rng.randrange(4) if damaged else 0):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        (tmp_path / "damaged").write_bytes(damaged)
        with suppress(BadHandOver):
            handover.read(tmp_path / "damaged")


@over("text", ["[]", "{}", "null", "[" * 10_000, json.dumps({"base": "x"}), "\ud800"])
def test_any_text_is_refused(tmp_path, text):
    data = text.encode(errors="surrogatepass")
    (tmp_path / "file").write_bytes(len(data).to_bytes(8, "little") + data)
    with pytest.raises(BadHandOver):
        handover.read(tmp_path / "file")


def test_ranges():
    assert (rounded(1), rounded(PIECE), rounded(PIECE + 1)) == (PIECE, PIECE, 2 * PIECE)
    assert overlap([(0, 4), (8, 4), (11, 1)])
    assert not overlap([(8, 4), (0, 8), (9, 0)])
    assert without((0, 10), [(2, 3), (4, 2), (20, 5)]) == [(0, 2), (6, 4)]
    assert without((0, 10), [(0, 10)]) == []


def test_slack_is_the_rest_of_a_block_and_nothing_freed():
    used = [(AT, 512), (AT + 512, 512)]
    assert _slack(unit(), used, [(AT, 64), (AT + 512, 64)]) == ((AT + 576, 448),)
    assert _slack(unit(), used, [(AT + 512, 64), (AT + 640, 128)]) == ((AT + 576, 64), (AT + 768, 256))
    assert _slack(unit(), used, [(AT + 512, 512)]) == ()


def test_an_elf_file_in_memory_is_taken_whole():
    header = bytearray(64)
    header[:4] = b"\x7fELF"
    header[40:48] = (100).to_bytes(8, "little")
    header[58:62] = (64).to_bytes(2, "little") + (2).to_bytes(2, "little")
    buffer = ctypes.create_string_buffer(bytes(header) + bytes(400))
    assert len(_whole(ctypes.addressof(buffer))) == 100 + 2 * 64
    assert _whole(ctypes.addressof(ctypes.create_string_buffer(64))) == b""
    assert _whole(None) == b""


@over(
    "structure, size",
    [
        *((driver.KernelParams, 72), (driver.FillParams, 40), (driver.CopyParams, 200)),
        *((driver._AllocationProperties, 32), (driver._Access, 12)),
    ],
)
def test_structures_have_the_drivers_sizes(structure, size):
    assert ctypes.sizeof(structure) == size


CALL = [Node(driver.FILL, Stretch(0, 40)), Node(driver.KERNEL, Stretch(0, 8)), Node(driver.KERNEL, Stretch(0, 8), 1)]
RAW = bytes(driver.FillParams(element=4, width=24, height=1))
OUTPUT = (Output(0, 0, 0, (), (), "float32"),)


def in_a_row(launches, nodes=None):
    found = CALL * launches if nodes is None else nodes
    edges = tuple((at, at + 1, at) for at in range(len(found) - 1))
    return Unit(tuple(found), edges, ((0,),), (OUTPUT,) * launches, ())


def found(timed):
    return HandOver(BASES[0], (), (), (), (), (), (in_a_row(1), in_a_row(1), timed))


def test_the_first_launches_are_a_graph_of_their_own():
    part, four = first_launches(found(in_a_row(9)), 4), in_a_row(4)
    assert (part.nodes, part.edges, len(part.outputs)) == (four.nodes, four.edges, 4)


EMPTY = Node(driver.EMPTY, Stretch(0, 0))
TOGETHER = {
    "as many as there are": (in_a_row(4), 4),
    "more than there are": (in_a_row(4), 9),
    "launches that are mixed": (in_a_row(2, [*CALL[:2], *CALL, CALL[2]]), 1),
    "launches in the other order": (replace(in_a_row(4), edges=tuple((b, a, c) for a, b, c in in_a_row(4).edges)), 2),
}


@over("what", TOGETHER)
def test_all_launches_are_taken_if_the_first_are_unclear(what):
    timed, most = TOGETHER[what]
    assert first_launches(found(timed), most) is timed


def test_empty_nodes_are_no_work():
    assert first_launches(found(in_a_row(2, [EMPTY, *CALL] * 2)), 1).nodes == (EMPTY, *CALL)


@over(
    "launches, calls, replays, counted",
    [(500, 32, 1, 32), (8, 4, 1, 4), (2, 4, 4, 4), (3, 4, 4, 6), (5, 4, 2, 5), (7, 4, 2, 7), (1, 4, 8, 4)],
)
def test_halves_are_whole_calls_and_enough_of_them(launches, calls, replays, counted):
    made, package = [], Package(found(in_a_row(launches)), memoryview(RAW), "")
    assert stream(package, calls, lambda part: made.append(part) or "graph") == Stream("graph", replays, counted, 4 * counted, 96)
    assert counted >= calls
    assert len(made[0].outputs) * replays == 2 * counted


def test_bytes_of_copies_and_fills_are_those_of_a_call():
    raw = bytes(driver.CopyParams(width=100, height=2, depth=1))
    nodes = [Node(driver.COPY, Stretch(0, len(raw))), *CALL[1:]]
    assert stream(Package(found(in_a_row(3, nodes * 3)), memoryview(raw), ""), 1, lambda part: lambda: None).unseen == 400


def empty_nodes(count, edges):
    return Unit((EMPTY,) * count, tuple(edges), (), (), ())


@given(st.data(), st.permutations(range(12)))
def test_each_node_comes_once_behind_those_that_it_waits_for(data, order):
    pairs = data.draw(st.sets(st.tuples(st.integers(0, 11), st.integers(0, 11)).filter(lambda pair: pair[0] < pair[1])))
    edges = [(order[a], order[b], data.draw(st.sampled_from((0, 0x10001)))) for a, b in sorted(pairs)]
    made, found = [], []
    for number, before in _in_order(empty_nodes(12, edges)):
        assert {first for first, _ in before} <= set(made)
        made.append(number)
        found += [(first, number, about) for first, about in before]
    assert sorted(made) == list(range(12))
    assert sorted(found) == sorted(edges)


def test_edges_that_go_round_are_refused():
    with pytest.raises(BadHandOver, match="in a circle"):
        list(_in_order(empty_nodes(3, [(0, 1, 0), (1, 2, 0), (2, 0, 0)])))
