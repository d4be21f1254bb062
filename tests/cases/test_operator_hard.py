"""Parameters of an operator's file, and what is refused of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.grids import over
from support.own_operators import CAPPED

from softbench.cases import operator_files, operators
from softbench.cases.operators import FileOperator
from softbench.measure.worker import loading, proving

pytest.importorskip("torch")
Read = Callable[..., FileOperator]


@pytest.fixture
def read(tmp_path: Path) -> Iterator[Read]:
    def changed(old: str = "", new: str = "") -> FileOperator:
        (tmp_path / "capped.py").write_text(CAPPED.replace(old, new))
        loaded = loading.operator(*operator_files.load([tmp_path]))
        operators.use([loaded])
        return loaded

    yield changed
    operators.use(())


@over(
    ("old", "new", "words"),
    [
        ("(x / cap)", "(x)", "the parameter 'cap' is never used; use it, or take it out of params"),
    ],
)
def test_a_mistake_is_one_line(read: Read, old: str, new: str, words: str) -> None:
    try:
        said = proving.fault(read(old, new))
    except ValueError as error:
        said = str(error)
    assert words in said
