"""The words of a case that name an operator, a distribution or a layout. Standard library only.

A layout word is one part, or parts joined by "+": ``offset-1+padded-3``. It says where the elements of an input lie:

contiguous   dense rows
offset-K     the first element lies K elements past an aligned address
padded-K     the row stride is K elements more than the row takes
strided-K    neighbouring columns lie K elements apart
transposed   the last two dimensions are swapped in memory
broadcast    every row is the same memory: row stride 0
keys-K       for attention only: K keys and values, if they are not as many as the queries
"""

import re
from dataclasses import dataclass

from softbench.cases.operators.distributions import DISTRIBUTIONS
from softbench.model import Case

ROW_OPERATORS: tuple[str, ...] = ("softmax", "softmax_backward", "rmsnorm", "layernorm", "add_rmsnorm", "add_layernorm")
"""Those that work along the last dimension of a shape of any rank."""
ATTENTION_OPERATORS: tuple[str, ...] = ("attention", "attention_causal")
OPERATORS = (*ROW_OPERATORS, *ATTENTION_OPERATORS)

PLAIN = "plain"
"""Not a word of a case: the distribution of a drawn case's inputs that are normal in other cases."""
_DRAWN = re.compile(r"drawn_(0|[1-9]\d{0,17})")
_PART = re.compile(r"(offset|padded|strided|keys)-([1-9]\d{0,8})|(transposed|broadcast)")
_CHOICES = 'contiguous, offset-K, padded-K, strided-K, transposed, broadcast, keys-K, or parts joined by "+"; K is 1 to 999999999'
_EXCLUSIVE = (("transposed", "padded"), ("transposed", "strided"), ("transposed", "broadcast"), ("broadcast", "padded"))


@dataclass(frozen=True)
class Layout:
    """A parsed layout word; offset, row_pad and column_step count elements. keys: 0 for as many as there are queries."""

    offset: int = 0
    row_pad: int = 0
    column_step: int = 1
    transposed: bool = False
    broadcast: bool = False
    keys: int = 0


def parse_layout(word: str) -> Layout:
    """The layout that a word names. Raises ValueError, naming the choices, for any other word."""
    if word == "contiguous":
        return Layout()
    parts: dict[str, int] = {}
    for text in word.split("+"):
        match = _PART.fullmatch(text)
        if match is None:
            raise ValueError(f"unknown layout {text!r} in {word!r}; choose {_CHOICES}")
        name = match[1] or match[3]
        if name in parts:
            raise ValueError(f"layout {word!r} names {name} twice; choose {_CHOICES}")
        parts[name] = int(match[2] or 0)
    for one, other in _EXCLUSIVE:
        if one in parts and other in parts:
            raise ValueError(f"layout {word!r} joins {one} and {other}, which exclude each other; choose {_CHOICES}")
    return Layout(
        offset=parts.get("offset", 0),
        row_pad=parts.get("padded", 0),
        column_step=parts.get("strided", 1),
        transposed="transposed" in parts,
        broadcast="broadcast" in parts,
        keys=parts.get("keys", 0),
    )


def is_drawn(distribution: str) -> bool:
    """Whether the word is ``drawn_SEED``: rows that the seed alone decides (`softbench.cases.operators.recipes`)."""
    return _DRAWN.fullmatch(distribution) is not None


def of_others(distribution: str) -> str:
    """The distribution of a case's other inputs, to which its own does not apply."""
    return PLAIN if is_drawn(distribution) else "normal"


UNTIMED = ("all_inf", "plus_inf", "nan_first", "nan_middle", "nan_last", "nan_with_inf")
"""Some right outputs are NaN, as are those that a timed launch must overwrite."""


def check_timed(word: str) -> None:
    """Raises ValueError for a distribution that no timed case can have."""
    if is_drawn(word):
        raise ValueError(f"{word!r} has two inputs only, and a timed case needs many; choose another distribution")
    if word in UNTIMED:
        raise ValueError(f"{word!r} has rows of NaN, which nobody could tell from what is not written; choose another")


def check_distribution(word: str) -> None:
    """Raises ValueError, naming the choices, where `word` is no distribution."""
    if word not in DISTRIBUTIONS and not is_drawn(word):
        raise ValueError(f"{word!r} is not a distribution; choose from {', '.join(DISTRIBUTIONS)}, drawn_SEED")


def check_case(case: Case) -> None:
    """Raises ValueError, which says what to do, for a combination of known words that the operator does not define."""
    keys = parse_layout(case.layout).keys
    if case.operator not in ATTENTION_OPERATORS:
        if keys:
            raise ValueError(f"{case.operator} has no keys, so no layout {case.layout!r}; take keys-{keys} out of it")
        return
    if len(case.shape) != 4:
        raise ValueError(f"{case.operator} needs a shape [batch, heads, queries, head dimension], not {list(case.shape)}")
    if case.dtype not in ("float16", "bfloat16") or case.out_dtype != case.dtype:
        words = case.dtype if case.out_dtype == case.dtype else f"{case.dtype} to {case.out_dtype}"
        raise ValueError(f"{case.operator} is float16 or bfloat16, in and out, not {words}")
    if parse_layout(case.layout).broadcast:
        raise ValueError(f"{case.operator} has no layout 'broadcast': all keys would be one; choose another")
