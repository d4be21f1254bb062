"""Hand-overs that are changed while their author's process writes them; the launches themselves are honest."""

import sys
from dataclasses import replace
from typing import Any

from softbench import implementation


@implementation(operator="softmax", requires=["cuda"])
def forged_grid(case: Any) -> Any:
    """Hands over timed launches of one block each."""
    return _forging(lambda builder, found: _timed(found, grid=(1, 1, 1)))


@implementation(operator="softmax", requires=["cuda"])
def forged_code(case: Any) -> Any:
    """Hands over timed launches of another's machine code: a kernel of the same name that does nothing."""

    def forge(builder: Any, found: Any) -> Any:
        right = found.functions[0]
        name = b"".join(builder._parts)[right.name.start :][: right.name.size].decode()
        images = (*found.images, builder.add(_nothing(name, right.parameters).encode()))
        functions = (*found.functions, replace(right, image=len(found.images)))
        return _timed(replace(found, images=images, functions=functions), function=len(found.functions))

    return _forging(forge)


@implementation(operator="softmax", requires=["cuda"])
def forged_address(case: Any) -> Any:
    """Names the memory that a checked launch has written as the output of every timed one."""

    def forge(builder: Any, found: Any) -> Any:
        first, *others, timed = found.units
        return replace(found, units=(first, *others, replace(timed, outputs=first.outputs * len(timed.outputs))))

    return _forging(forge)


@implementation(operator="softmax", requires=["cuda"])
def forged_count(case: Any) -> Any:
    """Hands over timed launches of 2**40 blocks each."""
    return _forging(lambda builder, found: _timed(found, grid=(1 << 40, 1, 1)))


@implementation(operator="softmax", requires=["cuda"])
def forged_size(case: Any) -> Any:
    """Hands over memory of 2**62 bytes."""

    def forge(builder: Any, found: Any) -> Any:
        return replace(found, pieces=tuple((address, 1 << 62) for address, _ in found.pieces))

    return _forging(forge)


def _forging(forge: Any) -> Any:
    """An honest launch, in a process that changes what it hands over."""
    builder = sys.modules["softbench.measure.sealed.handover"].Builder
    write = builder.write
    builder.write = lambda self, path, found: write(self, path, forge(self, found))
    return lambda x: x.softmax(-1)


def _timed(found: Any, **changes: Any) -> Any:
    """A hand-over with changes in every timed launch."""
    *checked, timed = found.units
    nodes = tuple(replace(node, **changes) for node in timed.nodes)
    return replace(found, units=(*checked, replace(timed, nodes=nodes)))


def _nothing(name: str, parameters: Any) -> str:
    """PTX of a kernel that takes these parameters, each an offset and bytes, and does nothing."""
    taken = (f".param .align {min(16, at & -at or 16)} .b8 p{number}[{size}]" for number, (at, size) in enumerate(parameters))
    return f".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry {name}({', '.join(taken)}) {{ ret; }}\n"
