"""The operators that a torch program calls, as a profile with weights: torch's dispatch mode sees calls of ATen."""

import contextlib
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from softbench.cases.operators.inputs import strides_of
from softbench.cases.operators.vocabulary import ATTENTION_OPERATORS, parse_layout
from softbench.model import Case, Tensor

_NORMS = {"native_layer_norm": "layernorm", "_fused_rms_norm": "rmsnorm", "rms_norm": "rmsnorm"}
_ATTENTION = re.compile("_scaled_dot_product_(flash|efficient|cudnn)_attention(_for_cpu)?")
_OTHER = re.compile("softmax|(layer|rms|batch|group)_norm|attention|rsqrt")


class Seen:
    """`cases` that were called, and `others`, calls that no case stands for."""

    def __init__(self) -> None:
        self.others: Counter[str] = Counter()
        self._calls: Counter[Case] = Counter()
        self._odd: dict[Case, str] = {}

    def note(self, name: str, given: Mapping[str, Any]) -> None:
        """Count a call of ATen by its name and arguments."""
        if name in ("_softmax", "_softmax_backward_data"):
            is_forward = "self" in given
            inputs = [given["self"]] if is_forward else [given["output"], given["grad_output"]]
            out = given.get("input_dtype") or ("float32" if given.get("half_to_float") else None)
            why = "" if given["dim"] in (-1, inputs[0].dim() - 1) else f"along dimension {given['dim']}"
            self._count("softmax" if is_forward else "softmax_backward", inputs, why, out)
        elif name in _NORMS:
            x = given["input"]
            whole = all(given[n] is not None and given[n].dtype == x.dtype for n in ("weight", "bias") if n in given)
            is_case = whole and len(given["normalized_shape"]) == 1
            self._count(_NORMS[name], [x], "" if is_case else "without weight or bias, or of two dtypes")
        elif _ATTENTION.fullmatch(name):
            inputs = [given[n] for n in ("query", "key", "value")]
            (q, k, _), causal = (t.shape for t in inputs), given["is_causal"]
            odd = len({(*t.shape[:2], t.shape[3]) for t in inputs}) > 1 or (causal and q != k) or given["dropout_p"]
            odd = odd or inputs[0].element_size() > 2 or given.get("attn_bias", given.get("attn_mask")) is not None
            why = "with a mask, dropout, grouped heads or float32" if odd else ""
            self._count(ATTENTION_OPERATORS[causal], inputs, why, keys=f"keys-{k[2]}" if q[2] != k[2] else "")
        elif _OTHER.search(name):
            self.others[f"aten::{name}"] += 1

    def _count(self, operator: str, inputs: list[Tensor], why: str, out: object = None, keys: str = "") -> None:
        """inputs have the case's layout; why keeps the call from being a case; out is a dtype if not theirs."""
        x = inputs[0]
        dtype, out_dtype = (str(one).removeprefix("torch.") for one in (x.dtype, out or x.dtype))
        layout = _layout(inputs, keys)
        case = Case(operator, tuple(map(int, x.shape)), dtype, out_dtype, layout or keys or "contiguous")
        if not {dtype, out_dtype} <= {"float16", "bfloat16", "float32"} or not case.elements:
            why = f"of {dtype}" if case.elements else "without elements"
        if why:
            self.others[f"{operator} {why}"] += 1
            return
        self._calls[case] += 1
        if not layout:
            self._odd[case] = str(list(x.stride()))

    @property
    def cases(self) -> tuple[Case, ...]:
        """With the number of calls as weight; contiguous where no word names the layout."""
        return tuple(replace(case, weight=count) for case, count in self._calls.items())

    def profile(self, name: str = "model") -> str:
        """The text of a shapes.yaml; it needs a case to be read."""
        lines = ["profiles:", f"  {name}:", "    description: captured; weights count calls", "    groups:"]
        for case in self.cases:
            words = f"operator: {case.operator}, dtype: {case.dtype}, out_dtype: {case.out_dtype}, layout: {case.layout}"
            lines += [f"      # strides {self._odd[case]}, which no layout word names"] if case in self._odd else []
            lines.append(f"      - {{{words}, shapes: [{list(case.shape)}], weight: {case.weight}}}")
        return "\n".join([*lines, *(f"# not here: {text}, {count} x" for text, count in self.others.items()), ""])

    def write(self, path: str | Path, name: str = "model") -> None:
        """Write `profile` into a new file. Raises OSError, FileExistsError for one that exists."""
        with Path(path).open("x") as file:
            file.write(self.profile(name))


@contextlib.contextmanager
def capture() -> Iterator[Seen]:
    """Count calls of this thread and their backward passes, without torch.compile."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    seen, lock = Seen(), threading.Lock()

    class Counting(TorchDispatchMode):  # type: ignore[misc]
        supports_higher_order_operators = True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given, name = kwargs or {}, str(getattr(func, "overloadpacket", func).__name__)
            if name not in _NORMS and isinstance(func, torch._ops.OpOverload) and func.namespace != "prim":
                with self:  # in inference mode operators that consist of others come whole
                    out = func.decompose(*args, **given)
                if out is not NotImplemented:
                    return out
            out = func(*args, **given)
            schema = func._schema.arguments if hasattr(func, "_schema") else ()
            defaults = {one.name: one.default_value for one in schema}
            try:
                with lock:
                    seen.note(name, {**defaults, **dict(zip(defaults, args, strict=False)), **given})
            except Exception:  # of sparse or nested tensors; the program goes on
                seen.others[f"aten::{name} of other tensors"] += 1
            return out

    with torch.compiler.set_stance("force_eager"), Counting():  # the threads of autograd inherit the mode
        yield seen


def _layout(inputs: list[Tensor], keys: str) -> str:
    """The word that all inputs lie as, with that of their keys; "" if there is none."""
    x = inputs[0]
    # an offset of whole loads, of 16 bytes at most, is none
    offset, *others = {t.storage_offset() % (16 // t.element_size()) for t in inputs}
    (row, column), size = (0, 1, *x.stride())[-2:], (1, *x.shape)[-1]
    for word in ("", "broadcast", "transposed", f"padded-{row - size}", f"strided-{column}"):
        name = "+".join(filter(None, [f"offset-{offset}" if offset else "", word, keys])) or "contiguous"
        with contextlib.suppress(ValueError):  # no such word, or none of this shape
            layout = parse_layout(name)
            if not others and all(_lies(t, strides_of(tuple(t.shape), layout)) for t in inputs):
                return name
    return ""


def _lies(x: Tensor, strides: tuple[int, ...]) -> bool:
    return all(size == 1 or one == other for size, one, other in zip(x.shape, x.stride(), strides, strict=True))
