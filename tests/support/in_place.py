"""An operator whose output takes the memory of its input, and kernels: right, and wrong once they are timed."""

from softbench.cases import operators
from softbench.cases.operators.reading import read
from softbench.measure.worker import loading
from softbench.model import Case

CASE = Case("double", (4, 8), "float32", "float32")
KERNELS = """
from softbench import implementation

def later(wrong):
    calls = []
    return lambda x: calls.append(x) or (x.add_(x) if len(calls) < 20 else wrong(x))

@implementation(operator="double")
def right(case):
    return lambda x: x.add_(x)

@implementation(operator="double")
def elsewhere(case):
    return later(lambda x: x + x)

@implementation(operator="double")
def unwritten(case):
    return later(lambda x: x)
"""


def known(folder):
    path = folder / "double.py"
    path.write_text("""from softbench import operator

@operator(reads={"x": "case"}, writes={"y": "case"}, overwrites={"y": "x"}, bound="exact")
def double(x):
    return x + x

@double.baseline
def torch_eager(x):
    return x.add_(x)
""")
    declared = loading.operator(read(path))
    operators.use([declared])
    return declared
