"""A referee's launches on the CPU, those that a profiler sees, and the order of a graph's nodes."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import in_place
from support.grids import over

from softbench.cases import operators
from softbench.measure.incorrect import Incorrect
from softbench.measure.plans import Plan
from softbench.measure.sealed import driver, launch, memory, unit
from softbench.measure.sealed.addresses import BASES, PIECE
from softbench.measure.sealed.handover import BadHandOver, Function, HandOver, Node, Output, Package, Stretch, Unit
from softbench.measure.sealed.launch import SealedLaunch
from softbench.measure.sealed.rebuild import _in_order
from softbench.measure.sealed.stream import Stream, first_launches, stream
from softbench.model import Case

CASE = Case("softmax", (4, 8), "float32", "float32")
AT = BASES[0] + PIECE
KIB = 1 << 10
SOFTMAX = operators.get("softmax")
NODE = Node(driver.KERNEL, Stretch(0, 0))
OUTPUTS = [(Output(AT + (512 + 64 * n) * KIB, 128, 0, (4, 8), (8, 1), "float32"),) for n in range(3)]
ONE, OTHER = (Unit((NODE,), (), ((AT,),), (outputs,), (0,)) for outputs in OUTPUTS[:2])
TIMED = Unit((NODE,) * 3, ((0, 1, 0), (1, 2, 0)), ((AT,), (AT + 64 * KIB,)), tuple(OUTPUTS), (0,))
FOUND = HandOver(BASES[0], (), (Function(Stretch(0, 0), 0, (), ()),), ((),), ((AT, PIECE),), (), (ONE, OTHER, TIMED))


class Fake:
    def __init__(self, monkeypatch):
        self.base, self.places, self.shown, self.ran, self.freed = BASES[0], {}, 0, [], []
        for module in (unit, memory):
            monkeypatch.setattr(module, "tensor_at", self.tensor_at)
        monkeypatch.setattr(unit, "driver", SimpleNamespace(fill=lambda *_: None, driver=lambda: self))
        monkeypatch.setattr(launch, "Rebuilt", lambda _: SimpleNamespace(resources=(), graph=lambda part: part, close=lambda: None))
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)

    def tensor_at(self, address, size):
        self.shown += 1
        return self.places.setdefault(address, torch.full((size,), 0xFF, dtype=torch.uint8))

    def renew(self, pieces):
        for place in self.places.values():
            place.fill_(0xFF)

    def free(self, pieces):
        self.freed += list(pieces)

    def overrun(self, gaps):
        return False

    def cuGraphLaunch(self, graph, stream):
        self.ran.append(len(graph.outputs))
        for (y,) in graph.outputs:
            place = self.places[y.address].view(torch.float32)
            self.found = place[y.offset : y.offset + 32].clone()
            place[y.offset : y.offset + 32] = torch.arange(32.0)


@pytest.fixture
def fake(monkeypatch):
    return Fake(monkeypatch)


def launch_of(fake, found=FOUND, case=CASE):
    like = operators.get(case.operator).make_inputs(case, "meta", 1)
    return SealedLaunch(Package(found, memoryview(b""), ""), fake, like, case)


def test_buffers_are_shown_once_while_they_are_mapped(fake):
    sealed = launch_of(fake)
    for seed in range(3):
        (x,), (kept,) = (SOFTMAX.make_inputs(CASE, "cpu", seed) for _ in range(2))
        assert torch.equal(sealed(x), torch.arange(32.0).view(4, 8))
        assert torch.equal(x, kept)
    assert fake.shown == 4  # two inputs and two outputs
    sealed.bare()
    assert fake.ran == [1] * 4
    sealed.free()
    sealed(*SOFTMAX.make_inputs(CASE, "cpu", 0))
    assert fake.shown == 8


def test_the_checks_free_no_memory_that_a_placement_shares(fake):
    """A workspace lies behind both: a comparison between two turns gives back only what is the checks' own."""
    shared, own = (AT, PIECE), (AT + PIECE, PIECE)
    units = (replace(ONE, pieces=(0, 1)), replace(OTHER, pieces=(0, 1)), TIMED)
    sealed = launch_of(fake, replace(FOUND, pieces=(shared, own), units=units))
    sealed.stream(SOFTMAX, CASE, Plan(3, 2, "cold"), 5, 1)
    sealed.free()
    assert fake.freed == [own, own]
    sealed.close()
    assert shared in fake.freed


def test_a_stream_has_a_placement_s_inputs_and_its_own_launches(fake):
    found = launch_of(fake).stream(SOFTMAX, CASE, Plan(3, 2, "cold"), 5, 1)
    assert (found.replays, found.calls, found.kernels) == (1, 1, 2)
    for number, address in enumerate((AT, AT + 64 * KIB)):
        (x,) = SOFTMAX.make_inputs(CASE, "cpu", 5 + number)
        assert bytes(fake.places[address].tolist()) == bytes(x.untyped_storage())
    found.replay()
    assert fake.ran == [2]


def test_an_output_may_be_the_overwritten_input(fake, tmp_path):
    operator = in_place.known(tmp_path)
    (x,) = operator.make_inputs(in_place.CASE, "cpu", 1)
    kept, offset, size = x.clone(), x.storage_offset(), x.untyped_storage().nbytes()
    ys = [(Output(AT + n * 64 * KIB, size, offset, (4, 8), (8, 1), "float32"),) for n in range(2)]
    checks = [replace(ONE, outputs=(ys[0],))] * 2
    found = replace(FOUND, units=(*checks, replace(TIMED, nodes=(NODE,) * 2, edges=(), outputs=tuple(ys))))
    sealed = launch_of(fake, found, in_place.CASE)
    for call in (sealed, sealed.again):
        assert torch.equal(call(x), torch.arange(32.0).view(4, 8))
        assert torch.equal(x, kept)
        assert torch.equal(fake.found, x.flatten())
    sealed.bare(*sealed.places)
    assert sealed.stream(operator, in_place.CASE, Plan(2, 2, "cold"), 5, 1).calls == 1
    with pytest.raises(BadHandOver, match="overlap"):
        launch_of(fake, replace(found, units=(ONE, OTHER, found.units[2])))
    with pytest.raises(Incorrect, match="not in the memory of input 0"):
        launch_of(fake, case=in_place.CASE)(x)
    operators.use(())


def test_other_launches_than_were_asked_for_are_refused(fake):
    with pytest.raises(BadHandOver, match="other launches"):
        launch_of(fake).stream(SOFTMAX, CASE, Plan(4, 2, "cold"), 5, 1)
    fake.base = BASES[1]
    with pytest.raises(BadHandOver, match="addresses that this process does not have"):
        launch_of(fake)


@over(
    "units, why",
    [
        ((ONE, ONE, TIMED), "one static buffer: two launches returned the same memory"),
        ((ONE, OTHER, replace(TIMED, outputs=(*OUTPUTS[:2], OUTPUTS[0]))), "it names buffers that overlap"),
    ],
)
def test_launches_that_return_the_same_memory_are_refused(fake, units, why):
    with pytest.raises(BadHandOver, match=why):
        launch_of(fake, replace(FOUND, units=units))


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
    part = first_launches(found(in_a_row(2, [EMPTY, *CALL, EMPTY, *CALL])), 1)
    assert part.nodes == (EMPTY, *CALL)


@over(
    "launches, calls, replays, counted",
    [(500, 32, 1, 32), (8, 4, 1, 4), (2, 4, 4, 4), (3, 4, 4, 6), (5, 4, 2, 5), (7, 4, 2, 7), (1, 4, 8, 4)],
)
def test_halves_are_whole_calls_and_enough_of_them(launches, calls, replays, counted):
    made = []

    def graph_of(part):
        made.append(part)
        return "graph"

    package = Package(found(in_a_row(launches)), memoryview(RAW), "")
    assert stream(package, calls, graph_of) == Stream("graph", replays, counted, 4 * counted, 96)
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
    made = []
    found = []
    for number, before in _in_order(empty_nodes(12, edges)):
        assert {first for first, _ in before} <= set(made)
        made.append(number)
        found += [(first, number, about) for first, about in before]
    assert sorted(made) == list(range(12))
    assert sorted(found) == sorted(edges)


def test_edges_that_go_round_are_refused():
    with pytest.raises(BadHandOver, match="in a circle"):
        list(_in_order(empty_nodes(3, [(0, 1, 0), (1, 2, 0), (2, 0, 0)])))
