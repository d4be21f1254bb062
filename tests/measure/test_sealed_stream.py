"""Which timed launches a profiler sees, and the order of a graph's nodes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.grids import over

from softbench.measure.sealed import driver
from softbench.measure.sealed.addresses import BASES
from softbench.measure.sealed.handover import BadHandOver, HandOver, Node, Output, Package, Stretch, Unit
from softbench.measure.sealed.rebuild import _in_order
from softbench.measure.sealed.stream import Stream, first_launches, stream

CALL = [Node(driver.FILL, Stretch(0, 40)), Node(driver.KERNEL, Stretch(0, 8)), Node(driver.KERNEL, Stretch(0, 8), 1)]
RAW = bytes(driver.FillParams(element=4, width=24, height=1))
OUTPUT = (Output(0, 0, 0, (), (), "float32"),)


def unit(launches, nodes=None):
    found = CALL * launches if nodes is None else nodes
    edges = tuple((at, at + 1, at) for at in range(len(found) - 1))
    return Unit(tuple(found), edges, ((0,),), (OUTPUT,) * launches, ())


def found(timed):
    return HandOver(BASES[0], (), (), (), (), (), (unit(1), unit(1), timed))


def test_the_first_launches_are_a_graph_of_their_own():
    part, four = first_launches(found(unit(9)), 4), unit(4)
    assert (part.nodes, part.edges, len(part.outputs)) == (four.nodes, four.edges, 4)


EMPTY = Node(driver.EMPTY, Stretch(0, 0))
TOGETHER = {
    "as many as there are": (unit(4), 4),
    "more than there are": (unit(4), 9),
    "launches that are mixed": (unit(2, [*CALL[:2], *CALL, CALL[2]]), 1),
    "launches in the other order": (replace(unit(4), edges=tuple((b, a, c) for a, b, c in unit(4).edges)), 2),
}


@over("what", TOGETHER)
def test_all_launches_are_taken_if_the_first_are_unclear(what):
    timed, most = TOGETHER[what]
    assert first_launches(found(timed), most) is timed


def test_empty_nodes_are_no_work():
    part = first_launches(found(unit(2, [EMPTY, *CALL, EMPTY, *CALL])), 1)
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

    package = Package(found(unit(launches)), memoryview(RAW), "")
    assert stream(package, calls, graph_of) == Stream("graph", replays, counted, 4 * counted, 96)
    assert counted >= calls
    assert len(made[0].outputs) * replays == 2 * counted


def test_bytes_of_copies_and_fills_are_those_of_a_call():
    raw = bytes(driver.CopyParams(width=100, height=2, depth=1))
    nodes = [Node(driver.COPY, Stretch(0, len(raw))), *CALL[1:]]
    assert stream(Package(found(unit(3, nodes * 3)), memoryview(raw), ""), 1, lambda part: lambda: None).unseen == 400


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
