"""First words of the notes of a record that other modules search for, and notes as sentences."""

import re

ALSO_ON_GPU = "also on the GPU while this was measured: "
"""Followed by the other processes on the GPU."""
CPU_BUSY = "this CPU was busy while this was measured: others used "
"""Followed by the share of the CPU that other processes used."""
_UNDECIDED = "; ranks with a ? are open"
_ENDS = {
    "decided": ": by then the fastest were known",
    "the last look,": ", the most that a case gets" + _UNDECIDED,
    "out of budget": ": then the time of the case was used up" + _UNDECIDED,
    "no entrant left": ": by then every kernel had failed",
    "open": " so far" + _UNDECIDED,
}
_END = re.compile(rf"heat \d+: ({'|'.join(_ENDS)}) after (\d+) placements")


def sentence(note: str) -> str:
    """A note of a record as readers are shown it: how a heat ended, and how long the stages of a case took, in words."""
    if found := _END.fullmatch(note):
        return f"measured in {found[2]} placement{'s' * (found[2] != '1')}{_ENDS[found[1]]}"
    if note.startswith("prepare "):
        return f"the stages of this case took: {note}"
    return re.sub(r"^heat \d+[,:] ", "", note)
