"""What is done to buffers between two replays, in Triton's interpreter; tests/gpu/test_gpu_renew.py has what it costs."""

from support.interpreted import interpreted

SCRIPT = """
import torch
from softbench.cases import operators
from softbench.model import Case
from softbench.measure.renew import Renewal

SHAPES = [((5, 7), layout) for layout in ("contiguous", "offset-3+padded-3", "strided-2", "transposed", "broadcast")]
SHAPES += [((2, 3, 40), "transposed")]
SHAPES += [(shape, "contiguous") for shape in ((2, 3, 40), (4, 1), (), (0, 4))]
# two inputs of rows in each; one alone; and weights and a second output
CASES = [("softmax_backward", *each) for each in SHAPES] + [("softmax", (5, 7), "broadcast")]
CASES += [("add_layernorm", shape, "contiguous") for shape in ((5, 7), (), (0, 4))]

def outputs(operator, case):
    return tuple(torch.zeros(spec.shape, dtype=getattr(torch, spec.dtype)) for spec in operator.output_specs(case))

for name, shape, layout in CASES:
    operator = operators.get(name)
    case = Case(name, shape, "bfloat16", "bfloat16", layout)
    inputs = [operator.make_inputs(case, "cpu", seed) for seed in range(3)]
    guards = [[x.as_strided((x.storage_offset(),), (1,), 0).clone() for x in call] for call in inputs]
    before = [[x.clone() for x in call] for call in inputs]
    written = [outputs(operator, case) for _ in range(4)]
    Renewal(inputs, [y if len(y) > 1 else y[0] for y in written], is_warm=layout != "contiguous")()
    where = (name, shape, layout)
    assert all(part.isnan().all() for y in written for part in y), where
    for call, old, guard in zip(inputs, before, guards):
        for number, (x, was, kept) in enumerate(zip(call, old, guard)):
            rows = (x != was).reshape(-1, x.shape[-1]) if x.dim() and x.numel() else (x != was).reshape(-1, 1)
            swapped = 2 if x.dim() and x.shape[-1] > 1 else 0
            changed = rows.sum(1)
            assert (changed == 1).all() if number == 0 else (changed <= swapped).all(), (where, number, changed)
            if number:
                assert torch.equal(x.float().sort(-1).values, was.float().sort(-1).values), (where, number)
            elif x.numel():
                assert ((x.float() - was.float()).abs().amax(-1) - 4).abs().max() < 0.1, where
            assert torch.equal(x.as_strided((x.storage_offset(),), (1,), 0).view(torch.int16), kept.view(torch.int16)), where

# offsets stay in order; a mask does not
x, ends, mask = torch.zeros(3, 8), torch.arange(24).view(3, 8), torch.arange(24).view(3, 8) % 2 == 0
kept = ends.clone(), mask.clone()
for _ in range(9):
    Renewal([(x, ends, mask)], [])()
assert torch.equal(ends, kept[0]) and not torch.equal(mask, kept[1])

# no two calls change the same element of every row; of one row in 512 they do, and move it back
x = torch.zeros(64, 512)
renew = Renewal([(x,)], [])
renew()
assert ((x != 0).sum(1) == 1).all()
renew()
changed = (x != 0).sum(1)
assert ((changed == 2) | (changed == 0)).all() and (changed == 2).sum() > 56
"""


def test_outputs_are_poisoned_and_every_row_of_every_input_changes(tmp_path):
    interpreted(tmp_path, SCRIPT)
