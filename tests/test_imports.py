"""Who may import whom, read from the sources; and what the cheap commands cost."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import builders
import pytest

from softbench import store

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "softbench"
HTILE = ROOT / "impls" / "cute" / "htile"

MAY_IMPORT: dict[str, str] = {
    "model": "",
    "contract": "",
    "texts": "",
    "resources": "",
    "packages": "",
    "stats": "model",
    "calibration": "model",
    "device": "model packages",
    "limits": "model",
    "cubin": "model",
    "typed": "texts",
    "store": "limits model resources texts typed",
    "comparable": "model texts",
    "operators": "model",
    "settings": "resources texts",
    "matrix": "model operators resources texts",
    "decorators": "",
    "sources": "resources",
    "literals": "texts typed",
    "registry": "decorators literals model operators resources sources texts",
    "shrinking": "model",
    "guard": "device",
    "selection": "contest device matrix model registry resources settings shrinking",
    "roof": "contract model operators registry",
    "check": "model operators",
    "cores": "",
    "busy": "",
    "plans": "",
    "clocks": "cores model operators plans renew",
    "renew": "operators",
    "wall": "check clocks model operators plans",
    "spin": "",
    "spans": "clocks model operators plans spin",
    "worker": "calibration check clocks contract cores cubin model operators packages plans roof sources spans spin texts wall",
    "contest": "calibration cores device limits model operators plans stats texts typed worker",
    "passport": "cores device model settings",
    "turns": "texts",
    "neighbours": "device texts",
    "parts": "model store",
    "retries": "calibration model",
    "resuming": "model parts passport settings store texts",
    "run": "busy contest device limits model neighbours operators parts passport resuming retries roof selection settings store "
    "turns",
    "leaderboard": "model stats",
    "sheet": "",
    "tables": "leaderboard model sheet",
    "export": "leaderboard model sheet tables",
    "compare": "comparable leaderboard model sheet stats texts",
    "history": "comparable compare leaderboard model sheet stats",
    "report": "busy calibration history leaderboard model published sheet stats tables texts",
    "published": "resources texts",
    "experiments": "leaderboard model published stats",
    "replay": "leaderboard model",
    "baseline": "comparable compare model settings store tables texts",
    "collect": "contest model packages replay run store texts",
    "spread": "device model parts run settings texts typed",
    "live": "contest leaderboard model run texts",
    "session": "baseline busy calibration collect device leaderboard live model neighbours packages published replay report "
    "resuming retries run selection settings shrinking spread tables texts",
    "plugin": "device packages session settings",
    "__main__": "cli",
    "doctor": "calibration contest cubin device model neighbours passport registry stats texts turns",
    "cli": "comparable compare contest device doctor experiments export history leaderboard model packages published registry "
    "report resources sheet stats store tables texts",
}
"""Module or package of softbench -> those that it may import. Nothing flows back: see docs/design.md."""

MAY_IMPORT_TORCH = {"operators", "roof", "check", "clocks", "wall", "renew", "spin", "spans", "device", "worker"}
ONLY_IN = {
    "torch": MAY_IMPORT_TORCH,
    "triton": {"renew", "roof", "spin", "worker"},
    "numpy": {"worker"},
    "plotly": {"report"},
    "pynvml": {"device"},
    "rich": {"live"},
    "pytest": {"collect", "session", "plugin", "spread"},
    "xdist": {"spread"},
    "pytest_benchmark": {"replay"},
    "cuda": set(),
    "cutlass": set(),
}
LAZY = set(ONLY_IN) - {"pytest"}
RUN_A_FILE = {"spec_from_file_location", "exec_module", "import_module", "run_path", "run_module", "__import__", "exec"}


EXAMPLES = (PACKAGE / "doctor" / "cheats", PACKAGE / "doctor" / "twins")
"""Folders of implementation files: workers run them, as they run those of impls/."""


def files() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path.parent not in EXAMPLES)


def module_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    """Every import statement with the full name that it imports; relative ones stay inside their package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)


def edges() -> set[tuple[str, str]]:
    """(importer, imported) between the modules of softbench, type-checking imports included."""
    found = set()
    for path in files():
        for _, name in imported(ast.parse(path.read_text())):
            parts = name.split(".")
            if parts[0] == "softbench" and (module_of(path), parts[1]) != (parts[1], module_of(path)):
                found.add((module_of(path), parts[1]))
    return found


def reached(module: str, *, without: set[tuple[str, str]] = frozenset()) -> set[str]:
    """All modules that come along when one is imported, without some of the imports."""
    found, waiting, known = set(), [module], edges() - without
    while waiting:
        new = {there for here, there in known if here == waiting[-1]} - found
        waiting.pop()
        found |= new
        waiting += new
    return found


def test_the_table_names_every_module():
    assert {module_of(path) for path in files()} - {"__init__"} == set(MAY_IMPORT)


def test_only_allowed_imports():
    allowed = {(here, there) for here, names in MAY_IMPORT.items() for there in names.split()}
    allowed |= {("__init__", "contract"), ("__init__", "model"), ("passport", "__version__")}
    allowed |= {("roof", name) for name in ("Unsupported", "implementation")}
    allowed |= {(name, "__version__") for name in ("cli", "export", "report")}
    assert not edges() - allowed


def test_the_order_has_no_circle():
    order: list[str] = []
    while rest := set(MAY_IMPORT) - set(order):
        ready = [name for name in sorted(rest) if set(MAY_IMPORT[name].split()) <= set(order)]
        assert ready, f"these import each other in a circle: {', '.join(sorted(rest))}"
        order += ready


def test_htile_imports_in_the_order_that_it_states():
    """As the docstring of the package lists its modules and folders, each imports those before it only."""
    stated = ast.get_docstring(ast.parse((HTILE / "__init__.py").read_text())) or ""
    order = re.findall(r"^(\w+)  +\w", stated, re.M)
    paths = [path for path in HTILE.rglob("*.py") if path != HTILE / "__init__.py"]
    assert sorted(order) == sorted({path.relative_to(HTILE).parts[0].removesuffix(".py") for path in paths})
    for path in paths:
        here = path.relative_to(HTILE).with_suffix("").parts
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                there = (*here[: len(here) - node.level], *(node.module or "").split("."))[0]
                assert there == here[0] or order.index(there) < order.index(here[0]), f"{path}:{node.lineno}"


def test_layouts_are_chosen_without_cutlass():
    for path in (HTILE / "config.py", HTILE / "layouts.py", HTILE.parent / "_plans.py"):
        assert not [name for _, name in imported(ast.parse(path.read_text())) if name.startswith("cutlass")]


def test_the_plugin_is_imported_by_nobody():
    assert not [here for here, there in edges() if there == "plugin"]


def test_heavy_modules_stay_where_they_belong():
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} imports {name}"
        for path in files()
        for node, name in imported(ast.parse(path.read_text()))
        if module_of(path) not in ONLY_IN.get(name.split(".")[0], {module_of(path)})
    ]
    assert not found


def test_heavy_modules_are_imported_inside_functions():
    """`_kernels.py` is @triton.jit code; `roof` and `spin` import theirs inside functions, in a worker."""
    found = []
    for path in files():
        tree = ast.parse(path.read_text())
        inside = {
            node
            for outer in ast.walk(tree)
            if isinstance(outer, ast.FunctionDef) or (isinstance(outer, ast.If) and "TYPE_CHECKING" in ast.dump(outer.test))
            for node in ast.walk(outer)
        }  # fmt: skip
        top = [name for node, name in imported(tree) if node not in inside and name.split(".")[0] in LAZY]
        if top and path.relative_to(PACKAGE).as_posix() not in (
            "renew/_kernels.py",
            "roof/_kernels.py",
            "spin/_kernels.py",
        ):
            found.append((path.relative_to(ROOT).as_posix(), top))
    assert not found


def test_only_workers_run_implementation_files():
    found = set()
    for path in files():
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(node, "attr", getattr(node, "id", "")) if isinstance(node, ast.Attribute | ast.Name) else ""
            if name in RUN_A_FILE:
                found.add(module_of(path))
    assert found == {"worker"}


@pytest.mark.parametrize(
    "module",
    ["leaderboard", "tables", "report", "export", "experiments", "store", "stats", "compare", "history", "cli"],
)
def test_rendering_reaches_nothing_that_needs_torch(module):
    """But for what the command line imports when it is asked for it: see test_cli."""
    found = reached(module, without={("cli", "contest"), ("cli", "doctor"), ("cli", "registry")})
    assert not found & (MAY_IMPORT_TORCH - {"device"} | {"contest", "run"})


def test_bundled_examples_are_implementation_files():
    """They import what any implementation may, torch inside functions, and nobody imports them."""
    found = [path for folder in EXAMPLES for path in folder.glob("*.py")]
    assert len(found) > 20
    for path in found:
        tree = ast.parse(path.read_text())
        inside = {n for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)}
        ours = {name for _, name in imported(tree) if name.startswith("softbench")}
        assert ours <= {f"softbench.{name}" for name in ("implementation", "Unsupported", "operators.get")}, path
        assert not [name for node, name in imported(tree) if name.split(".")[0] == "torch" and node not in inside], path
    names = [name for path in [*files(), *found] for _, name in imported(ast.parse(path.read_text()))]
    assert not [name for name in names if name.startswith(("softbench.doctor.cheats", "softbench.doctor.twins"))]


SHOW = """
import sys
code = {call}
heavy = sorted({{"torch", "triton", "numpy", "cutlass", "cuda", "rich"}} & set(sys.modules))
sys.exit(f"imported {{heavy}}" if heavy else int(code or 0))
"""


def python(call: str, *arguments: str, cwd: Path = ROOT) -> tuple[subprocess.CompletedProcess[str], float]:
    """A child that runs one expression with `arguments` in sys.argv, and its seconds. It fails if torch is loaded."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", SHOW.format(call=call), *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done, time.perf_counter() - started


PYTEST = "__import__('pytest').main()"
COLLECT = ("--softbench", "--collect-only", "-q", "-p", "no:cacheprovider", "--softbench-profile", "gpu")


def test_collecting_imports_no_torch():
    done, _ = python(PYTEST, *COLLECT)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert "softmax-bfloat16-2x128256::triton_best" in done.stdout


def test_help_imports_no_torch():
    done, _ = python(PYTEST, "--help")
    assert done.returncode == 0, done.stderr
    assert "--softbench-profile" in done.stdout


def test_report_imports_no_torch(tmp_path):
    case = builders.softmax_case()
    writer = store.Writer.create(tmp_path, builders.passport())
    writer.append([builders.timed(case, "torch_eager", 2e4), builders.timed(case, "mine", 1e4)])
    page = tmp_path / "page.html"
    done, _ = python("__import__('softbench.cli').cli.main()", "report", str(writer.path), "--output", str(page))
    assert done.returncode == 0, done.stdout + done.stderr
    assert case.id in page.read_text()


def test_collecting_the_gpu_profile_takes_under_a_second(tmp_path):
    """Over what pytest itself takes; the best of three of each, as other work slows single runs."""
    bare = min(python(PYTEST + " and 0", "--collect-only", "-q", cwd=tmp_path)[1] for _ in range(3))
    ours = min(python(PYTEST, *COLLECT)[1] for _ in range(3))
    assert ours - bare < 1.0, f"{ours:.2f} s, of which pytest alone takes {bare:.2f} s"
