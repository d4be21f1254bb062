"""Rows of which much lies far below the peak, down to where a softmax of any dtype has nothing left."""


def rows(columns, dtype, count):
    """(count, columns): the kinds of this module in turn."""
    import torch

    some = [peaks(columns, count), segments(columns, count), slopes(columns, count)]
    return torch.stack(some, 1).flatten(0, 1)[:count].to(getattr(torch, dtype))


def peaks(columns, count):
    """One value, 40 to 110 below the only other one, which is at another place in every row."""
    import torch

    x = -torch.linspace(40, 110, count)[:, None].expand(count, columns).contiguous()
    row = torch.arange(count)
    x[row, row * (columns - 1) // max(1, count - 1)] = 0
    return x


def segments(columns, count):
    """Sixteen segments, each with normals around a height of its own, in every second row with one of -inf."""
    import torch

    generator = torch.Generator().manual_seed(columns)
    width = max(8, -(-columns // 16))
    height = -120 * torch.rand(count, -(-columns // width), generator=generator)
    height[torch.arange(count), torch.randint(height.shape[1], (count,), generator=generator)] = 0
    if height.shape[1] > 1:
        height[1::2, 1] = float("-inf")
    return height.repeat_interleave(width, 1)[:, :columns] + torch.randn(count, columns, generator=generator)


def slopes(columns, count):
    """Straight lines from 0 down to -120 in all, or by 8 a column; every second one rises."""
    import torch

    line = -torch.arange(columns, dtype=torch.float32)
    x = torch.stack([line * 120 / columns, line.flip(0) * 120 / columns, line * 8, line.flip(0) * 8])
    return x.repeat(-(-count // 4), 1)[:count]
