"""Runs every kind of kernel of impls/cute once, for compute-sanitizer: python -m tests.gpu.sanitized, in the checkout."""

from __future__ import annotations

import torch

from impls.cute.norms import layer_norm, rms_norm
from impls.cute.softmax import softmax, softmax_backward

# Rows of one element, several a CTA, odd, one CTA, uneven, clusters of 2 to 16, odd in a cluster, split over the GPU.
SHAPES = [
    (5, 1),
    (33, 128),
    (7, 1001),
    (9, 1024),
    (3, 8191),
    (3, 8192),
    (2, 16392),
    (2, 50257),
    (2, 65536),
    (1, 131072),
    (1, 262144),
    (1, 1048576),
    (2, 1048575),
]


def main() -> None:
    torch.manual_seed(0)
    for dtype in (torch.float16, torch.float32):
        for rows, columns in SHAPES:
            x = torch.randn(rows, columns, device="cuda", dtype=dtype)
            y = softmax(x)
            exact = torch.softmax(x.double(), -1)
            assert torch.allclose(y.double(), exact, rtol=2e-3, atol=1e-7), (dtype, rows, columns)
            softmax_backward(x, y)
            if columns <= 262144:
                weight = torch.randn(columns, device="cuda", dtype=dtype)
                rms_norm(x, weight, None, x)
                layer_norm(x, weight, weight)
        softmax(torch.randn(6, 1030, device="cuda", dtype=dtype)[:, 3:1027])
        softmax(torch.randn(3, 50260, device="cuda", dtype=dtype)[:, 1:])
    torch.cuda.synchronize()
    print("done")


if __name__ == "__main__":
    main()
