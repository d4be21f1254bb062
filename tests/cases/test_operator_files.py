"""Operators of files as they are read: what a declaration comes to, and one line for each mistake in one."""

from pathlib import Path

import pytest
from support.grids import over
from support.own_operators import GELU, L2NORM

from softbench.cases import matrix, operator_files, operators, registry
from softbench.cases.declarations import RegistryError
from softbench.cases.operators.streams import Stream
from softbench.model import Case
from softbench.resources import MAX_BYTES


@pytest.fixture(autouse=True)
def folder(cwd):
    """An empty operators folder in the working directory; afterwards no operator of a file is known."""
    (cwd / "operators").mkdir()
    yield cwd / "operators"
    operators.use(())


def mistake(text, name="gelu.py"):
    Path("operators", name).write_text(text)
    with pytest.raises(RegistryError) as error:
        operator_files.load([Path("operators")])
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_declaration_is_read_and_the_file_not_run(folder):
    (folder / "gelu.py").write_text(GELU.replace("import math\n", "raise SystemExit(3)\nimport math\n"))
    (folder / "l2norm.py").write_text(L2NORM)
    (folder / "_private.py").write_text("this is not Python")
    (folder / "unrelated.py").write_text("def gelu(: a file of somebody else's")
    gelu, l2norm = operator_files.load([folder, Path("operators")])
    assert (gelu.name, gelu.error, gelu.roof, gelu.place) == ("gelu", "elementwise", "copy", "operators/gelu.py:12: gelu")
    assert (gelu.reads, gelu.writes) == ((Stream("x"),), (Stream("y"),))
    assert l2norm.reads == (Stream("x"), Stream("weight", "columns", mean=1, spread=0.25))
    assert (l2norm.writes, l2norm.error) == ((Stream("y"), Stream("length", "rows")), "")
    assert operators.names() == (*operators.OPERATORS, *operators.bundled(), "gelu", "l2norm")
    assert operators.get("gelu") is gelu
    case = Case("l2norm", (4, 8), "float16", "float32")
    assert gelu.ideal_bytes(case) == 32 * 2 + 32 * 4
    assert l2norm.ideal_bytes(case) == 32 * 2 + 8 * 2 + 32 * 4 + 4 * 4
    baseline = operator_files.baseline(gelu)
    assert (baseline.implementation, baseline.operator, baseline.source_hash) == ("torch_eager", "gelu", gelu.source_hash)


def test_cases_and_implementations_may_name_it_once_it_is_loaded(folder):
    (folder / "gelu.py").write_text(GELU)
    Path("shapes.yaml").write_text("profiles: {p: {description: d, groups: [{operator: gelu, dtype: float32, shapes: [[2, 3]]}]}}")
    Path("own.py").write_text("from softbench import implementation\n@implementation(operator='gelu')\ndef mine(case): ...\n")
    with pytest.raises(RegistryError, match="operator 'gelu' is not known; "):
        registry.find([Path()])
    with pytest.raises(matrix.PlaceError, match="'gelu' is not an operator; "):
        matrix.load(Path("shapes.yaml"))
    assert matrix.profile_names(Path("shapes.yaml")) == ("p",)
    operator_files.load([folder])
    assert [v.operator for v in registry.find([Path()])] == ["gelu"]
    assert [case.id for case in matrix.load(Path("shapes.yaml")).profile("p")] == ["gelu-float32-2x3"]


def test_an_operator_among_implementations_is_refused():
    Path("gelu.py").write_text(GELU)
    with pytest.raises(RegistryError, match=r"gelu\.py:11: gelu is an operator, which judges implementations and cannot lie"):
        registry.find([Path()])


READ, WRITTEN = '{"x": "case"}', '{"y": "case"}'


MISTAKES = [
    ("def gelu(x):", "def gelu(x:", "operators/gelu.py:11: not valid Python: "),
    ("def gelu", "def math", "the name 'math' has another meaning in this file; rename the operator"),
    ("def gelu", "def _gelu", "an operator's name begins with a letter and has at most 60 characters"),
    ("@operator(", "@print(", "imports softbench but declares no operator; decorate its reference with @operator"),
    ("import torch\n", "from . import torch\n", "gelu.py:5: an operator is one file and imports no neighbour; "),
    ('bound="elementwise"', 'bound="elemntwise"', "'elemntwise' is no error bound; did you mean 'elementwise'?"),
    ('bound="elementwise"', "bound=[1]", "[1] is no error bound; choose from exact, relative, row, elementwise"),
    (', bound="elementwise"', "", "no error bound; give one as bound=..., one of exact, relative, row, elementwise, or"),
    (WRITTEN, '{"y": "case", "z": "rows"}', "the bound 'elementwise' has no meaning for 'z', one element"),
    ("bound=", "bond=", "unknown keyword 'bond'; did you mean 'bound'? choose from reads, writes, bound, params"),
    ("bound=", "params={'k': (1, 8)}, bound=", "gelu takes nothing by keyword, and params has k; write def "),
    ("bound=", "params={'k': (8, 1)}, bound=", "the parameter 'k' needs a range: two numbers, the lower first"),
    ("bound=", "params={'x': (1, 8)}, bound=", "the parameter 'x' has the name of a stream or of a shape; rename"),
    ("bound=", "params=['k'], bound=", "params are a dict of names and ranges, such as {'k': (1, 32)}"),
    ("def gelu(x)", "def gelu(x, *, k)", "gelu takes k by keyword, and params has nothing; write def gelu(..., *"),
    ('writes={"y": "case"}, ', "", "the keyword 'writes' is missing; name its streams, such as writes={'x': 'case'}"),
    (READ, "make()", "make() is not a literal; the file is not imported, so write the value out"),
    (READ, '["x"]', "streams are a dict of names and shapes, such as {'x': 'case'}"),
    (
        READ,
        '{"x": "cases"}',
        "stream 'x': 'cases' is no shape; did you mean 'case'? choose from case, rows, columns, or a number of",
    ),
    (READ, '{"x": {"like": 1}}', "stream 'x': unknown key 'like'; choose from shape, dtype, mean, "),
    (READ, '{"x": 3}', "stream 'x' is described by its shape, or by a dict; the shapes are case, "),
    (READ, '{"x": {"dtype": "float32"}}', "stream 'x' is as large as the case, and has its dtype"),
    (WRITTEN, '{"y": {"mean": 1}}', "stream 'y': unknown key 'mean'; choose from shape, dtype"),
    (WRITTEN, '{"y": {"shape": "rows", "dtype": "int8"}}', "stream 'y': 'int8' is no dtype; "),
    (WRITTEN, '{"y": {"shape": 0}}', "stream 'y': 0 elements per row; give 1 to 65536"),
    (READ, '{"x": {"dtype": "int32", "mean": 1}}', "unknown key 'mean'; choose from shape, dtype, "),
    (READ, '{"x": {"dtype": "bool", "share": 1}}', "stream 'x': share is between 0 and 1, not 1"),
    (READ, '{"x": {"dtype": "int64", "below": "rows"}}', 'below is "columns" or a number from 2 to 2**31'),
    (
        WRITTEN,
        '{"y": "case", "at": {"shape": 2, "dtype": "int32", "indexes": "z"}}',
        "stream 'at' indexes 'z', and no input of the case's size has that name; choose from x",
    ),
    (WRITTEN, '{"y": {"dtype": "int32", "indexes": "x"}}', "stream 'y': indices have one element per row, or a number of them"),
    (READ, '{"x": {"spread": 0}}', "stream 'x': mean and spread are numbers, and the spread is above 0"),
    (READ, '{"x": "rows"}', "the first stream, 'x', is drawn by the case; describe it as 'case' only"),
    (READ, '{"z": "case"}', "reads has z, and the reference takes x; give both the same names in the"),
    (
        "gelu(x):\n    return 0.5 * x * (1 + torch.erf(x /",
        "gelu(x):\n    return 0.5 * (1 + torch.erf(1 /",
        "the stream 'x' is never used",
    ),
    ("@gelu.baseline\n", "", "there is no baseline; decorate a function torch_eager of torch with @gelu.baseline"),
    ("def torch_eager", "def mine", "the baseline is called 'mine', and boards state speed-ups over torch_eager"),
    ("torch_eager(x)", "torch_eager(x, y)", "the baseline takes 2 inputs, and reads has 1"),
    ("@gelu.baseline", "@gelu.slack\ndef slack(u, y, x): ...\n@gelu.baseline", "given by name and by @gelu.slack"),
    ('bound="', 'overwrites="x", bound="', "overwrites is a dict of outputs and inputs, such as {'dx': 'x'}"),
    ('bound="', 'overwrites={"x": "y"}, bound="', "overwrites: no output 'x' can take the memory of 'y', only"),
    ('bound="', 'overwrites={"y": "y"}, bound="', "dtype, each of another: x"),
    (
        '"case"}, b',
        '"rows"}, overwrites={"y": "x"}, b',
        "no output 'y' can take the memory of 'x', only that of an input of its shape and dtype, each of another: none is left",
    ),
    ('"case"}, b', '"case", "z": "case"}, overwrites={"y": "x", "z": "x"}, b', "no output 'z' can take"),
    ("@gelu.baseline", "def gelu(): ...\n@gelu.baseline", "the name is defined again here and hides the reference"),
    ("@gelu.baseline", "@operator(reads={})\ndef other(): ...\n@gelu.baseline", "other: the file declares a second operator"),
]


@over("old, new, words", MISTAKES)
def test_a_mistake_is_one_line_that_names_file_line_and_remedy(old, new, words):
    assert GELU.count(old) == 1
    said = mistake(GELU.replace(old, new))
    assert said.startswith("operators/gelu.py:")
    assert words in said


def test_a_name_that_is_taken_and_a_folder_that_is_none(folder):
    (folder / "first.py").write_text(GELU)
    assert "operators/gelu.py:11: gelu: operator 'gelu' is declared in operators/first.py:11: gelu too; rename one" in mistake(GELU)
    for name, what in (("none", "does not exist"), ("operators/first.py", "is a file; give the folder that it lies in")):
        with pytest.raises(RegistryError, match=what):
            operator_files.load([Path(name)])
    (folder / "first.py").unlink()
    assert "operator 'softmax' is one of softbench's own; rename this one" in mistake(GELU.replace("gelu", "softmax"))
    (folder / "gelu.py").unlink()
    Path("kernels").mkdir()
    Path("kernels/law.py").write_text(GELU)
    Path("kernels/own.py").write_text("from softbench import implementation\nthis is no Python")
    (folder / "linked.py").symlink_to(Path("kernels/law.py").absolute())
    for place in ("kernels", "operators"):
        with pytest.raises(RegistryError, match="gelu: operator 'gelu' lies in kernels, whose kernels it judges; move it out"):
            operator_files.load([Path(place)], [Path("kernels").absolute()])
    Path("kernels/law.py").write_text("")
    assert operator_files.load([Path("kernels"), folder], [Path("kernels").absolute()]) == ()


def test_what_is_no_text_of_an_operator(folder):
    assert "is longer than 64 KiB, the most for an operator's file" in mistake(GELU + "#" * 2**16)
    assert f"is longer than {MAX_BYTES >> 20} MiB" in mistake("#" * (MAX_BYTES + 1))
    (folder / "gelu.py").write_bytes(b"# softbench \xff")
    with pytest.raises(RegistryError, match="byte 0xff is not UTF-8"):
        operator_files.load([folder])
