"""Notes as sentences."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from softbench.measure.contest.rounds import Heat
from softbench.model import notes


def test_however_a_heat_ends_there_are_words_for_it() -> None:
    def ended(active: int, looks: int, *, is_over: bool, is_look: bool) -> str:
        heat = SimpleNamespace(_looks=[8] * looks, _is_over=lambda: is_over)
        return Heat._end(heat, [None] * active, 8, is_look)  # type: ignore[arg-type, list-item]

    ends = {ended(0, 1, is_over=False, is_look=look) for look in (True, False)}
    ends |= {ended(1, 0, is_over=False, is_look=True), ended(1, 1, is_over=True, is_look=False)}
    found = {notes.sentence(f"heat 0: {end}") for end in (*ends, "open after 8 placements")}
    assert len(found) == len(notes._ENDS)
    assert all(text.startswith("measured in 8 placements") and "heat" not in text for text in found)


@pytest.mark.parametrize(
    ("note", "said"),
    [
        ("heat 1: decided after 1 placements", "measured in 1 placement: by then the fastest were known"),
        ("heat 0, placement 3, 4 does not count: hw_slowdown", "placement 3, 4 does not count: hw_slowdown"),
        ("prepare 1.0 s, calls 2.0 s", "the stages of this case took: prepare 1.0 s, calls 2.0 s"),
        ("built and checked in 1.0 s", "built and checked in 1.0 s"),
    ],
)
def test_a_note_is_a_sentence_without_codes(note: str, said: str) -> None:
    assert notes.sentence(note) == said
