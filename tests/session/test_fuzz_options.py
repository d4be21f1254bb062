from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.builders import ended, overflowed, run, written
from support.fuzzing import CASE, HARD, RANDOM, TEXTS, WIDE, damaged, one_line, rendered, tried, twisted
from support.options import Group, read

from softbench import resources
from softbench.analysis import claims
from softbench.cases import matrix
from softbench.model import Status
from softbench.records import claims as claim_files
from softbench.records import store
from softbench.render import export
from softbench.session.regression import RegressionCheck
from softbench.texts import InputError

CASES = (CASE, WIDE, HARD)


SHAPES = yaml.safe_load("""
profiles:
  mine:
    description: d
    groups:
      - {operator: softmax, dtype: [float16, float32], shapes: [[4, 8], [1, 1]], why: w}
      - {operator: [rmsnorm], dtype: float32, rows: [1, 2], columns: 8, layout: offset-1+padded-3}
  checked:
    description: d
    timed: false
    groups: [{operator: softmax, dtype: float16, shapes: [[], [0, 3]], distribution: [peaked]}]
""")


@tried(250)
@given(random=RANDOM)
def test_shapes(tmp_path, random):
    how = random.randint(0, 3)
    data = SHAPES if how == 0 else twisted(random, SHAPES)
    flow = random.choice([None, True, False])
    text = yaml.safe_dump(data, default_flow_style=flow, allow_unicode=True).encode("utf-8", "surrogatepass")
    if how == 3:
        text = resources.bundled_shapes().read_bytes()[-3000:]
    path = tmp_path / "shapes.yaml"
    path.write_bytes(damaged(random, text) if how != 1 else text)
    try:
        found = matrix.load(path)
        cases = [case for name in found.profiles for case in found.profile(name)]
        found.profile(random.choice(TEXTS))
    except matrix.PlaceError as error:
        one_line(error)
    else:
        assert all(min(case.shape, default=0) >= 0 for case in cases)


@tried(250)
@given(random=RANDOM, text=st.text(max_size=20))
def test_options(tmp_path, random, text):
    chosen = {}
    for name, default in Group().options.items():
        if not isinstance(default, bool) and random.random() < 0.3:
            given_text = random.choice([*TEXTS, text, "1", "4-8", "float16,float32", str(10**30), "2%"])
            chosen[name.removeprefix("--softbench-")] = [given_text] if isinstance(default, list) else given_text
    try:
        found = read(tmp_path, **chosen)
        assert 0 < found.budget_s < 1e6
        assert found.seed is None or -(2**63) <= found.seed < 2**63
        assert found.fail_on is None or 0 <= found.fail_on <= 10
        RegressionCheck.of(found)
        matrix.select(CASES, found.axes)
        store.find(found.reports, found.resume)
    except InputError as error:
        one_line(error)


@tried(150)
@given(random=RANDOM)
def test_published_claims(tmp_path, random):
    good = sorted(resources.bundled_published().glob("*.yaml"))
    own = tmp_path / "x.yaml"
    own.write_bytes(damaged(random, random.choice(good).read_bytes()))
    try:
        text = export.document_markdown(claims.document(claims.judge([run([overflowed()])], [claim_files.read(own)])))
    except InputError as error:
        one_line(error)
    else:
        assert text.replace("\n", "").isprintable()


WORDS = "table report claims doctor good latest --reports --format csv --cases * --output --run --cells --all markdown"


@tried(120)
@given(random=RANDOM, text=st.text(max_size=20).filter(lambda text: "\0" not in text))
def test_command_lines(cwd, capsys, random, text):
    if not Path("good.jsonl").exists():
        written(cwd, ended(CASES[0], "mine", Status.CRASHED, "died"), run_id="good")
    words = [
        *WORDS.split(),
        f"{CASE.id}::mine",
        *(word for word in TEXTS if "\0" not in word and word.encode(errors="ignore").decode() == word),
        text,
    ]
    commands = ["table", "report", "compare", "history", "show"]
    arguments = [random.choice(commands), *(random.choice(words) for _ in range(random.randint(0, 4)))]
    code = 0
    try:
        rendered(capsys, *arguments)
    except SystemExit as left:  # argparse's own: 0 behind --help, else 2
        code = left.code
    assert code in (0, 2)
    assert "Traceback" not in capsys.readouterr().err
