from support.paths import KEPT, ROOT

from softbench import resources
from softbench.analysis import claims
from softbench.cases import matrix
from softbench.records import store
from softbench.records.claims import read
from softbench.render import export

PAGE = ROOT / "docs" / "claims.md"
BUNDLED = {path.stem: read(path) for path in sorted((ROOT / "reports" / "published").glob("*.yaml"))}


def test_the_profiles_ask_what_was_published():
    bundled = matrix.load(resources.bundled_shapes())
    for name in ("stability", "overhead", "fusion"):
        assert {c.id for c in bundled.profile(f"experiment-{name}")} == set(BUNDLED[name].figures)
    assert [c.id for c in bundled.profile("published")] == list(BUNDLED["h800"].figures)
    assert all(c.rows > 1 for c in bundled.profile("experiment-triton"))
    sources = "".join(p.read_text() for p in (ROOT / "impls").glob("*/[a-z]*.py"))
    names = {n for file in BUNDLED.values() for claim in file.claims for n in (*claim.who, claim.than) if n}
    assert all(f'"{name}"' in sources or f"def {name}(case" in sources for name in names)
    files = (p for p in (ROOT / "softbench").rglob("*.py") if "cli" not in p.parts and p.name != "packages.py")
    code = "".join(p.read_text() for p in files)
    assert not [name for name in names - {"torch_eager"} if name in code]


def test_the_page_is_what_the_committed_records_say():
    """Runs of two machines make two documents, each with some of the files."""
    whole = ""
    for text in PAGE.read_text().split("# Claims\n")[1:]:
        ids = [line.split("`")[1] for line in text.partition("\n## ")[0].splitlines() if line.startswith("- `")]
        runs = [store.read(next(path for path in KEPT if path.name.startswith(f"{name}."))) for name in ids]
        files = [own for own in BUNDLED.values() if f"## {own.title}\n" in text]
        whole += export.document_markdown(claims.document(claims.judge(runs, files)))
    assert PAGE.read_text() == whole
    assert all(whole.count(f"## {own.title}\n") == 1 for own in BUNDLED.values())
