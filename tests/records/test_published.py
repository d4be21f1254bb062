"""Tables of published figures: the profile that asks for them, and those that cannot be read, in one line with file and line."""

import pytest

from softbench import resources
from softbench.cases import matrix
from softbench.records import published


def test_the_profile_has_the_shapes_that_were_published():
    shapes = dict.fromkeys((int(r["rows"]), int(r["columns"])) for r in published.bundled()["h800"].rows)
    assert list(shapes) == [case.shape for case in matrix.load(resources.bundled_shapes()).profile("published")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "x.csv:1: must begin with '# source: '"),
        ("# source: s\n# what: w\n# gpu: g\na\n1\n", "x.csv:2: must begin with '# gpu: '"),
        ("# source: s\n# gpu: g\n# what: w\na,b\n", "x.csv: has no rows"),
        ("# source: s\n# gpu: g\n# what: w\na,b\n1,2\n3\n", "x.csv:6: has another number of fields"),
        ("# source: s\n# gpu: g\n# what: w\na,b\n1,2,3\n", "x.csv:5: has another number of fields"),
    ],
)
def test_a_table_that_cannot_be_read_is_named(tmp_path, text, words):
    with pytest.raises(published.PublishedError, match="holds no published figures"):
        published.read(tmp_path)
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(published.PublishedError) as caught:
        published.read(tmp_path)
    assert words in str(caught.value)
