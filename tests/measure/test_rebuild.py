"""The order in which a referee makes the nodes of a graph."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softbench.measure.sealed.driver import EMPTY
from softbench.measure.sealed.handover import BadHandOver, Node, Stretch, Unit
from softbench.measure.sealed.rebuild import _in_order

PROGRAMMATIC = 0x10001


def unit(nodes, edges):
    return Unit((Node(EMPTY, Stretch(0, 0)),) * nodes, tuple(edges), (), (), ())


@given(st.data(), st.permutations(range(12)))
def test_each_node_comes_once_behind_those_that_it_waits_for(data, order):
    pairs = data.draw(st.sets(st.tuples(st.integers(0, 11), st.integers(0, 11)).filter(lambda pair: pair[0] < pair[1])))
    edges = [(order[a], order[b], data.draw(st.sampled_from((0, PROGRAMMATIC)))) for a, b in sorted(pairs)]
    made = []
    found = []
    for number, before in _in_order(unit(12, edges)):
        assert {first for first, _ in before} <= set(made)
        made.append(number)
        found += [(first, number, about) for first, about in before]
    assert sorted(made) == list(range(12))
    assert sorted(found) == sorted(edges)


def test_edges_that_go_round_are_refused():
    with pytest.raises(BadHandOver, match="in a circle"):
        list(_in_order(unit(3, [(0, 1, 0), (1, 2, 0), (2, 0, 0)])))
