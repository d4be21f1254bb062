"""Cases drawn from a seed: shapes only, or whole cases with their values. Standard library only.

The last four digits of a seed decide a whole case, all digits its values: seeds 10,000 apart give the same case with other values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from softbench.cases.operators.recipes import Draw
from softbench.cases.operators.vocabulary import ATTENTION_OPERATORS
from softbench.model import DTYPE_BYTES, Case

QUESTIONS = 10_000
MOST_ELEMENTS = 2**20
MOST_COLUMNS = 200_000
MOST_ROWS = 4_096
LAST_SEED = 10**18 - 1


def case_of(operator: str, seed: int) -> Case:
    """The case of a seed from 0 to `LAST_SEED`; it is checked, not timed."""
    draw = Draw(f"{operator} {seed % QUESTIONS}")
    word = f"drawn_{seed}"
    if operator in ATTENTION_OPERATORS:
        dtype = draw.one("float16", "bfloat16")
        heads = (1 + draw.below(2), 1 + draw.below(3), round(draw.around(1, 300)), (64, 128)[draw.below(2)])
        layout = "contiguous" if draw.chance(2) else f"keys-{round(draw.around(1, 2000))}"
        return Case(operator, heads, dtype, dtype, layout, word, timed=False)
    dtype = draw.one("float16", "bfloat16", "float32")
    wide = operator == "softmax" and dtype != "float32" and draw.chance(6)
    shape = _shape(draw)
    layout = _layout(draw, operator, shape)
    return _fitted(Case(operator, shape, dtype, "float32" if wide else dtype, layout, word, timed=False), draw)


def random_cases(
    key: str, operator: str, dtypes: Sequence[str], count: int, ranges: dict[str, tuple[int, int]], timed: bool
) -> Iterator[Case]:
    """The dtypes take turns; ranges are of "columns", and of "rows" or the "bytes" of an input."""
    draw = Draw(f"{key} {operator}")
    for number in range(count):
        dtype, columns = dtypes[number % len(dtypes)], round(draw.around(*ranges["columns"]))
        low, high = ranges.get("rows") or ranges["bytes"]
        if "bytes" in ranges:
            row = columns * DTYPE_BYTES[dtype]
            low, high = -(-low // row), high // row
        case = Case(operator, (round(draw.around(low, max(low, high))), columns), dtype, dtype, timed=timed)
        yield _fitted(case, draw)


def _fitted(case: Case, draw: Draw) -> Case:
    """With drawn parameters, and as many columns as the operator needs."""
    from softbench.cases.operators import of_file

    declared = of_file(case.operator)
    if declared is None:
        return case
    case = replace(case, params=tuple((p.name, p.drawn(draw)) for p in declared.params))
    return replace(case, shape=(*case.shape[:-1], max(case.columns, declared.least_columns(case))))


def _shape(draw: Draw) -> tuple[int, ...]:
    """Any number of columns, or one next to a multiple of a power of two; as many rows as MOST_ELEMENTS allows."""
    columns = round(draw.around(256, 16_384) if draw.chance(2) else draw.around(1, MOST_COLUMNS))
    if draw.chance(3):
        step = 1 << draw.below(14)
        columns = min(max(1, step * max(1, columns // step) + draw.below(3) - 1), MOST_COLUMNS)
    rows = round(draw.around(1, min(MOST_ROWS, MOST_ELEMENTS // columns)))
    if draw.chance(8):
        outer = 1 + draw.below(4)
        return (outer, max(1, rows // outer), columns)
    return (rows, columns)


def _layout(draw: Draw, operator: str, shape: tuple[int, ...]) -> str:
    if draw.chance(2):
        return "contiguous"
    offset, padded = f"offset-{1 + draw.below(8)}", f"padded-{1 + draw.below(16)}"
    choices = [offset, padded, f"{offset}+{padded}", f"strided-{2 + draw.below(2)}", "transposed"]
    if operator == "softmax":
        choices.append("broadcast")
    return draw.one(*choices)
