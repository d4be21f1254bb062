"""What all kernels of the family share: the type of the arithmetic, two ways to an exponential, values held packed."""

import triton
import triton.language as tl


@triton.jit
def widen(x):
    """float64 stays, everything narrower is computed in float32."""
    if x.dtype == tl.float64:
        return x
    else:
        return x.to(tl.float32)


@triton.jit
def power(difference, EXP2: tl.constexpr):
    """exp(x - maximum) for a difference already taken: x*log2e - maximum*log2e would lose 3e-4 at an offset of 1e4."""
    if EXP2 and difference.dtype != tl.float64:
        return tl.exp2(difference * 1.4426950408889634)
    else:
        return tl.exp(difference)


@triton.jit
def result_base(maximum, out: tl.constexpr, EXP2: tl.constexpr, LOG: tl.constexpr):
    """What to subtract where a power times a scale is rounded to `out`: for bfloat16 less, so that its powers are larger.

    exp2 makes 0 of results below 2**-126, which bfloat16 reaches; the scale, of `result_scale`, takes the rest.
    """
    if EXP2 and not LOG and out == tl.bfloat16 and maximum.dtype != tl.float64:
        return maximum - 16.0
    else:
        return maximum


@triton.jit
def result_power(difference, out: tl.constexpr, EXP2: tl.constexpr):
    """exp(x - base), with the smallest results that `out` holds: float32 takes exp, three instructions more."""
    return power(difference, EXP2 and (out == tl.float16 or out == tl.bfloat16))


@triton.jit
def result_scale(total, maximum, base, EXP2: tl.constexpr, LOG: tl.constexpr):
    """What makes a `result` of x - base, from a total over the maximum."""
    if LOG:
        return tl.log(total)
    else:
        return power(base - maximum, EXP2) / total


@triton.jit
def result(difference, scale, out: tl.constexpr, EXP2: tl.constexpr, LOG: tl.constexpr):
    """A probability, or its logarithm, of x - base."""
    if LOG:
        return (difference - scale).to(out)
    else:
        return (result_power(difference, out, EXP2) * scale).to(out)


@triton.jit
def opaque(x, zero, PACKED: tl.constexpr):
    """The same 16-bit values, but the compiler does not know it, since it does not know `zero`: it keeps no float32 copy.

    In PTX, which works on two values per register. ptxas sees through a plain move: 64 elements then take 96 registers per
    thread, and 60 this way.
    """
    if PACKED:
        bits = tl.broadcast_to(zero.to(tl.int16), x.shape)
        return tl.inline_asm_elementwise("xor.b32 $0, $1, $2;", "=r,r,r", [x, bits], dtype=x.dtype, is_pure=True, pack=2)
    else:
        return x


@triton.jit
def overlap():
    """Let the next kernel start, then wait until the one before has ended; without a dependent launch both are nothing."""
    tl.extra.cuda.gdc_launch_dependents()
    tl.extra.cuda.gdc_wait()


@triton.jit
def meet(maximum, total, x, EXP2: tl.constexpr):
    """Each lane's (maximum, total) after one more value, with one exponential: the value or the total is scaled.

    Equal values, -inf and -inf among them, differ by nothing; -inf minus -inf would be NaN. What a lane sums before its
    first finite value is multiplied by exp(-inf) = 0 later.
    """
    difference = tl.where(x == maximum, 0.0, x - maximum)
    smaller = power(-tl.abs(difference), EXP2)
    total = tl.where(x > maximum, total * smaller + 1.0, total + smaller)
    return tl.maximum(maximum, x), total


@triton.jit
def gather(maximum, total, x, EXP2: tl.constexpr):
    """Each lane's (maximum, total) after several more values, the rows of x: an exponential each, and one for the total.

    A lane that has seen nothing but -inf subtracts 0 and not -inf.
    """
    top = tl.maximum(maximum, tl.max(x, axis=0))
    base = tl.where(top == -float("inf"), 0.0, top)
    total = total * power(maximum - base, EXP2) + tl.sum(power(x - base[None, :], EXP2), axis=0)
    return top, total
