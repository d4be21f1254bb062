"""`softbench list`, `show`, `new` and `completion`: what is here, one cell, a file to begin with, a shell that helps."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from support.builders import ended, passport, samples, softmax_case, timed, variant
from support.cards import H200
from support.projects import bench

from softbench import cli, resources
from softbench.cases import registry
from softbench.cli.new import LANGUAGES
from softbench.cli.parser import COMMANDS
from softbench.measure import device
from softbench.model import KernelResources, Status, Telemetry
from softbench.records import store

CASE = softmax_case(4096, 1024)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one run in reports/: mine passed, wrong did not."""
    monkeypatch.chdir(tmp_path)
    mine = timed(
        CASE,
        "mine",
        5_000,
        samples=(samples(5_000), samples(9_000, clock="call")),
        telemetry=(Telemetry(1980, 3201, 500, 40, "power"),),
        kernels=(KernelResources("softmax_kernel", 64, 8, 1024),),
        notes=("heat 0: decided after 8 placements",),
    )
    wrong = ended(CASE, "wrong", Status.INCORRECT, "every element is 0", known_failure="as everybody knows")
    writer = store.Writer.create(tmp_path / "reports", passport(run_id="run-1"))
    writer.append([mine, wrong, timed(CASE, "copy", 4_000, role="roof")])
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert cli.main(arguments) == code
    shown = capsys.readouterr()
    if code:
        assert (shown.out, shown.err.count("\n")) == ("", 1)
    return shown.err if code else shown.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", "20261121-191821*", "20261121-200233*"),
        ("history", "."),
        ("list",),
        ("show", "softmax-float16-16x131072", "--run", "20261122-110039*"),
        ("show", "softmax-float16-16x131072::quack", "--run", "20261122-110039*"),
    ],
)
def test_on_a_terminal_of_80_columns_nothing_but_commands_is_wider(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    folder = resources.bundled_shapes().parent / "reports" / "h200"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    named = [
        str(next(folder.glob(word))) if "*" in word else str(folder) if word == "." else word for word in arguments
    ]
    wide = [line for line in said(capsys, *named).splitlines() if len(line) > 80]
    assert all(line.startswith("pytest --softbench") for line in wide)


@pytest.mark.parametrize("prefix", ["", "shapes.yaml::", "sub/my.yml::"])
def test_show_is_a_cell_down_to_its_samples(folder: Path, capsys: pytest.CaptureFixture[str], prefix: str) -> None:
    text = said(capsys, "show", f"{prefix}{CASE.id}::mine")
    assert text.startswith(f"{CASE.id}::mine\n====")
    for words in (
        r"^PASSED$",
        r"^rank +1\*$",
        r"^% of roof +80\.0$",
        r"^Clock graph: 5\.00 us, \d\.\d\d to 5\.\d\d; us per launch, 20 per sample, cold L2$",
        r"^ +8 +3 +(4\.99|5\.00) +",
        r"^Clock call: 9\.00 us",
        r"^softmax_kernel +64 +8 +1024$",
        r"^ +1 +1980 +3201 +500 +40 +power$",
        r"^heat 0: decided after 8 placements$",
        rf"^pytest --softbench --softbench-profile=full -k '{CASE.id} and mine'$",
    ):
        assert re.search(words, text, re.M), words


def test_show_says_why_a_cell_failed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "show", f"{CASE.id}::wrong", "--run", "run-1")
    assert "INCORRECT (xfail)\nevery element is 0\nDeclared beforehand: as everybody knows\n" in text
    assert f"\npytest -k {CASE.id}\n" in text
    assert "Clock" not in text


def test_show_without_a_name_is_the_case(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert re.search(r"^ +1\* +mine +PASSED", said(capsys, "show", CASE.id), re.M)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("softmax-float16-4096x1025::mine", "run-1 has no case 'softmax-float16-4096x1025'; did you mean"),
        (f"{CASE.id}::min", "has no cell of 'min'; did you mean 'mine'? choose from mine, wrong, copy"),
        ("", "run-1 has no case ''; "),
        ("\x1b[2J", "run-1 has no case"),
    ],
)
def test_a_cell_that_is_not_there(folder: Path, capsys: pytest.CaptureFixture[str], cell: str, words: str) -> None:
    assert words in said(capsys, "show", cell, code=2)


def test_list_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(device, "gpus", lambda: ())
    text = said(capsys, "list")
    names = {variant.implementation for variant in registry.find([resources.bundled_impls()])}
    assert f"{len(names)} implementations; this machine meets " in text
    for name in names:
        assert re.search(rf"^{name} .*(yes|checked|compiled|no)$", text, re.M), name
    assert re.search(r"^torch_eager +library +softmax.* and \d more +\d+ +always$", text, re.M)
    assert re.search(r"^torch_eager .*torch.* yes$", text, re.M)
    assert re.search(r"^cuda_naive .* when named$", text, re.M)
    assert re.search(r"^cuda_naive .* ✗ cuda>=sm_80, .* (compiled|no)$", text, re.M)
    if importlib.util.find_spec("triton"):
        assert re.search(r"^triton_best .* checked$", text, re.M)
    assert re.search(r"^cuda>=sm_80 +needs a CUDA GPU, and this machine has none$", text, re.M)
    assert "Triton kernels are checked in its interpreter" in text.replace("\n", " ")


def test_list_on_a_gpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(device, "gpus", lambda: (H200,))
    text = said(capsys, "list", "--format", "markdown")
    assert "## NVIDIA H200\n" in text
    assert "✗ cuda" not in text


def test_list_has_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    said(capsys, "new", "my_softmax")
    assert re.search(r"^my_softmax +kernels +softmax +2\b", said(capsys, "list", "--impls", "kernels"), re.M)
    assert "softbench: no: this folder of implementations does not exist" in said(capsys, "list", "--impls=no", code=2)


@pytest.mark.parametrize("language", LANGUAGES)
def test_new_is_read_as_one_implementation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], language: str
) -> None:
    monkeypatch.chdir(tmp_path)
    text = said(capsys, "new", "mine", "--language", language)
    assert text.startswith("written: kernels/mine.py\n")
    source = Path("kernels/mine.py").read_text()
    assert ast.get_docstring(ast.parse(source))
    assert "NAME" not in source
    assert {v.implementation for v in registry.find([Path("kernels")])} == {"mine"}


@pytest.mark.slow
@pytest.mark.parametrize(("language", "word"), [("torch", "PASSED"), ("triton", "CHECKED")])
def test_new_runs_as_it_is_by_the_command_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], language: str, word: str
) -> None:
    if language == "triton":
        pytest.importorskip("triton")
    monkeypatch.chdir(tmp_path)
    command = shlex.split(said(capsys, "new", "mine", "--language", language).strip().splitlines()[-1])
    assert command[:2] == ["pytest", "--softbench"]
    done = bench(tmp_path, "-v", *command[2:])
    assert done.returncode == 0, done.stdout
    assert re.search(rf"::mine(\[num_warps=4\])? {word}", done.stdout), done.stdout


@pytest.mark.parametrize(
    ("name", "words"),
    [
        *(
            (name, "cannot name an implementation")
            for name in ("", "1x", "a-b", "../x", "class", "_x", "x" * 61, "é", "a b")
        ),
        ("\x1b[2J", "cannot name an implementation"),
        ("torch_eager", "torch_eager.py already; choose another name"),
        ("taken", "'taken' is declared in kernels/other.py already"),
        ("there", "kernels/there.py: exists, and is not overwritten"),
    ],
)
def test_a_name_that_cannot_be_borne(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    said(capsys, "new", "taken")
    Path("kernels/taken.py").rename("kernels/other.py")
    Path("kernels/there.py").write_text("'''mine'''\n")
    before = sorted(Path("kernels").iterdir())
    assert words in said(capsys, "new", "--", name, code=2)
    assert sorted(Path("kernels").iterdir()) == before
    assert Path("kernels/there.py").read_text() == "'''mine'''\n"


def test_new_in_an_empty_folder_and_in_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("file").write_text("")
    assert "written: empty/mine.py" in said(capsys, "new", "mine", "--folder", "empty")
    assert "file: is in the way" in said(capsys, "new", "mine", "--folder", "file", code=2)
    assert "cannot be written" in said(capsys, "new", "mine", "--folder", "a\0b", code=2)


def completed(script: str, folder: Path, *words: str) -> list[str]:
    """What bash offers for the last word."""
    line = " ".join(map(shlex.quote, words))
    code = (
        f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _softbench; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    bash = shutil.which("bash")
    assert bash
    done = subprocess.run([bash, "-c", code], cwd=folder, capture_output=True, text=True, timeout=30, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = said(capsys, "completion", "bash")
    assert set(completed(script, folder, "softbench", "")) == {c.name for c in COMMANDS} | {"--help", "--version"}
    assert completed(script, folder, "softbench", "comp") == ["compare", "completion"]
    assert completed(script, folder, "softbench", "compare", "--fa") == ["--fail-on"]
    assert completed(script, folder, "softbench", "table", "--format", "") == ["text", "markdown", "csv"]
    assert completed(script, folder, "softbench", "compare", "") == ["latest", "run-1", "reports"]
    assert completed(script, folder, "softbench", "compare", "run-1", "la") == ["latest"]
    assert completed(script, folder, "softbench", "show", "x", "--run", "run") == ["run-1"]
    assert completed(script, folder, "softbench", "show", "run") == []
    assert completed(script, folder, "softbench", "completion", "z") == ["zsh"]
    assert completed(script, folder, "softbench", "history", "rep") == ["reports"]


def test_zsh_gets_the_same_through_bashcompinit(capsys: pytest.CaptureFixture[str]) -> None:
    bash, zsh = (said(capsys, "completion", shell).split("\n", 1)[1] for shell in ("bash", "zsh"))
    assert zsh == f"autoload -U +X bashcompinit && bashcompinit\n{bash}"


def test_the_variants_of_a_cell_have_names_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    four = variant("mine", params=(("num_warps", 4),))
    store.Writer.create(tmp_path, passport(run_id="r")).append([timed(CASE, "mine", 5_000, variant=four)])
    text = said(capsys, "show", f"{CASE.id}::mine[num_warps=4]", "--reports", str(tmp_path))
    assert text.startswith(f"{CASE.id}::mine[num_warps=4]\n")
