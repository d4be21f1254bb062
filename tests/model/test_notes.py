from types import SimpleNamespace

from softbench.measure.contest.rounds import Heat
from softbench.model import notes


def test_however_a_heat_ends_there_are_words_for_it():
    ways = ((0, 1, False, True), (0, 1, False, False), (1, 0, False, True), (1, 1, True, False))
    ends = [
        Heat._end(SimpleNamespace(_looks=[8] * looks, deadline=float("-inf" if is_over else "inf")), [None] * active, 8, is_look)  # type: ignore[arg-type, list-item]
        for active, looks, is_over, is_look in ways
    ]
    found = {notes.sentence(f"heat 0: {end}") for end in (*ends, "open after 8 placements")}
    assert len(found) == len(notes._ENDS)
    assert all(text.startswith("measured in 8 placements") and "heat" not in text for text in found)


def test_a_note_is_a_sentence_without_codes():
    assert notes.sentence("heat 1: decided after 1 placements") == "measured in 1 placement: by then the fastest were known"
    assert notes.sentence("heat 0, placement 3 does not count: hot") == "placement 3 does not count: hot"
    assert notes.sentence("prepare 1.0 s, calls 2.0 s") == "the stages of this case took: prepare 1.0 s, calls 2.0 s"
    assert notes.sentence("built and checked in 1.0 s") == "built and checked in 1.0 s"
