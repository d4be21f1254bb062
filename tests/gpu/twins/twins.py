"""The same kernel under two names, and one that does 1 % of the rows twice."""

from softbench import implementation


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"])
def twin_a(case):
    from ._twin import softmax

    return softmax


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"])
def twin_b(case):
    from ._twin import softmax

    return softmax


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"])
def twin_slow(case):
    from ._twin import softmax

    return lambda x: softmax(x, extra_rows=case.rows // 100)
