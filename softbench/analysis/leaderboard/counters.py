"""What a kernel does more of than another of its case, by hardware counters: docs/measuring.md, "What differs"."""

from collections.abc import Iterator
from typing import NamedTuple

from softbench.model import Traffic

MORE, SHARE, LEAST_BYTES = 1.25, 0.1, 1 << 20
"""Two readings of a kernel differ by per cents. HBM3 moves a megabyte in 0.3 µs, less than a launch takes."""
SECTOR_BYTES, WIDEST_SECTORS = 32, 17
"""32 lanes with 16 bytes each fill 16 sectors, 17 if they begin within one; a load of more is scattered."""
CONFLICT_BYTES = 128 / 9
"""A conflict costs a cycle. Shared memory moves 128 bytes in one, nine times a multiprocessor's part of device memory."""
FEWER, FEWER_POINTS = 0.5, 12.5
"""3.35 TB/s for 0.7 µs are 18 KB in flight per multiprocessor, 16 bytes for each lane of 35 of its 64 warps: half may do."""


class Difference(NamedTuple):
    cause: str
    text: str
    moves: bool = False
    """Whether it explains traffic."""


def differences(own: Traffic | None, best: Traffic | None, rival: str) -> list[Difference]:
    """Nothing where either lacks counters. Traffic of spills and of scattered loads is not named again."""
    if own is None or best is None or own.local_sectors is None or best.local_sectors is None:
        return []
    return [*_memory(own, best, rival), *_on_chip(own, best, rival)]


def _memory(own: Traffic, best: Traffic, rival: str) -> Iterator[Difference]:
    spilled, others = (SECTOR_BYTES * (counted.local_sectors or 0) for counted in (own, best))
    if _is_more(spilled, others, best):
        yield Difference("spills", f"spills: loads {_mb(spilled)} from local memory, {rival} {_mb(others)}", True)
    wide, theirs = ((counted.load_sectors or 0) / (counted.load_requests or 1) for counted in (own, best))
    loads, read = _loads(own), max(0, own.read_bytes - spilled)
    if wide > WIDEST_SECTORS and wide >= MORE * theirs and _is_more(loads, max(_loads(best), best.read_bytes), best):
        said = f"uncoalesced: {wide:.1f} sectors per load of a warp, {rival} {theirs:.1f}"
        yield Difference("uncoalesced loads", said, True)
    elif _is_more(read, best.read_bytes, best):
        yield Difference("second read", f"reads {_times(read, best.read_bytes, rival)} reads", True)
    elif 2 * _loads(best) >= best.read_bytes and _is_more(loads, _loads(best), best):  # else the TMA loads there
        yield Difference("cached read", f"loads {_times(loads, _loads(best), rival)} loads, from caches", True)


def _on_chip(own: Traffic, best: Traffic, rival: str) -> Iterator[Difference]:
    mine, theirs = own.warps_percent or 0.0, best.warps_percent or 0.0
    if mine <= FEWER * theirs and theirs - mine >= FEWER_POINTS:
        yield Difference("low occupancy", f"low occupancy: {mine:.1f} % of the warps that fit, {rival} {theirs:.1f} %")
    found, others = own.bank_conflicts or 0, best.bank_conflicts or 0
    if _is_more(found * CONFLICT_BYTES, others * CONFLICT_BYTES, best):
        said = f"{found / 1e6:.1f} M bank conflicts in shared memory, {rival} {others / 1e6:.1f} M"
        yield Difference("bank conflicts", said)


def _is_more(mine: float, theirs: float, best: Traffic) -> bool:
    return mine >= MORE * theirs and mine - theirs >= max(LEAST_BYTES, SHARE * max(_loads(best), best.read_bytes))


def _loads(counted: Traffic) -> int:
    """Bytes of the sectors of loads, from wherever; few where the TMA loads."""
    return SECTOR_BYTES * (counted.load_sectors or 0)


def _mb(size: float) -> str:
    return f"{size / 1e6:.0f} MB"


def _times(mine: int, theirs: int, rival: str) -> str:
    return f"{_mb(mine)}, " + (f"{mine / theirs:.1f} times " if theirs else "") + f"the {_mb(theirs)} that {rival}"
