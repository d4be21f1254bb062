from pathlib import Path

import pytest
from support.bisected import git
from support.grids import over

from softbench.cases import registry, revisions
from softbench.cases.revisions import RevisionError

KERNEL = """
from softbench import implementation

@implementation(operator="softmax", params={"width": [1, 2]})
def mine(case, width): ...
"""


def refused(words):
    return pytest.raises(RevisionError, match=words)


def first_commit(folder):
    for words in (["init"], ["add", "-A"], ["commit", "-m", "first"]):
        git(folder, *words)


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    monkeypatch.setenv("SOFTBENCH_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "project" / "kernels"
    (folder / "deep").mkdir(parents=True)
    (folder / "mine.py").write_text(KERNEL)
    (folder / "deep" / "helper.py").write_text("OLD = 1\n")
    (folder / "out").symlink_to("/etc")
    first_commit(folder.parent)
    git(folder, "tag", "v1")
    (folder / "mine.py").write_text(KERNEL.replace("[1, 2]", "[2, 3]"))
    return folder


def found(folder, revision="v1"):
    return revisions.find(f"git:{revision}", [folder])


def test_a_revision_has_the_files_of_then_under_its_own_names(kernels):
    then = found(kernels)
    assert [v.id for v in then] == ["mine@v1[width=1]", "mine@v1[width=2]"]
    assert {v.declared_name for v in then} == {"mine"}
    assert {v.family for v in then} == {"kernels"}
    now = registry.find([kernels])
    assert {v.source_hash for v in then}.isdisjoint({v.source_hash for v in now})
    place = Path(then[0].path).parent
    assert (place / "deep" / "helper.py").read_text() == "OLD = 1\n"
    assert not (place / "out").exists()  # a link could lead anywhere


def test_what_has_not_changed_has_the_same_source(kernels):
    git(kernels, "checkout", "--", "mine.py")
    (kernels / "out").unlink()
    now = {v.source_hash for v in registry.find([kernels])}
    assert {v.source_hash for v in found(kernels, "HEAD")} == now


def test_it_is_unpacked_once(kernels, monkeypatch):
    first = found(kernels)
    monkeypatch.setattr(revisions.tarfile, "open", None)
    assert found(kernels) == first


@over("revision", ["HEAD~0", "refs/tags/v1", "v1^0"])
def test_a_revision_that_makes_no_name_is_called_by_its_commit(kernels, revision):
    commit = git(kernels, "rev-parse", "v1")[:12]
    assert found(kernels, revision)[0].implementation == f"mine@{commit}"


def test_several_versions_at_once(kernels, tmp_path):
    git(kernels, "commit", "-am", "second")
    several = revisions.find_all(["git:v1", "git:HEAD", "git:v1"], [kernels])
    assert [v.id for v in several] == [f"mine@{own}" for own in ("v1[width=1]", "v1[width=2]", "HEAD[width=2]", "HEAD[width=3]")]
    other = tmp_path / "v1"
    other.mkdir()
    (other / "mine.py").write_text(KERNEL)
    with refused(r"--softbench-against: 'git:v1' and '.* are both called mine@v1$"):
        revisions.find_all(["git:v1", str(other)], [kernels])


def test_the_commits_that_changed_a_folder(kernels):
    git(kernels, "commit", "-am", "second \x1b[31m")
    (kernels.parent / "notes").write_text("")
    git(kernels.parent, "add", "-A")
    git(kernels, "commit", "-m", "elsewhere")
    git(kernels, "checkout", "-qb", "side", "v1")
    (kernels / "deep" / "helper.py").write_text("OLD = 2\n")
    git(kernels, "commit", "-am", "aside")
    git(kernels, "checkout", "-q", "main")
    git(kernels, "merge", "-m", "merged", "side")
    v1, main, side = (revisions.commit(name, kernels) for name in ("v1", "main", "side"))
    assert (v1.name, v1.subject, v1.author) == ("v1", "first", "Ann")
    assert [commit.subject for commit in revisions.changes(v1, main, kernels)] == ["second ?[31m", "merged"]
    assert [commit.subject for commit in revisions.changes(v1, main, kernels, ["deep"])] == ["merged"]
    assert revisions.changes(v1, v1, kernels) == ()
    with refused(r"^main is no ancestor of side; name the older revision first"):
        revisions.changes(main, side, kernels)


@over(
    "against, words",
    [
        ("git:nope", "'nope' is no revision of "),
        ("git:", "'' is no revision of "),
        ("git:--help", "'--help' is no revision of "),
        ("nowhere", "'nowhere' is no folder, and not of the form git:REVISION"),
        ("", "'' is no folder"),
    ],
)
def test_what_cannot_be_had_is_one_line(kernels, against, words):
    with refused("--softbench-against: ") as caught:
        revisions.find(against, [kernels])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ("", "/env is no folder with bin/python and no python; "),
        ("no", "/env/bin/python does not run as a Python: it gives no answer"),
        ('["3.14.0", [3, 14], [], true]', "is Python 3.14.0; softbench runs on 3.10 to 3.13"),
        ('["3.12.1", [3, 12], [], false]', "torch is missing there: "),
        ('["3.12.1", [3, 12], [], true]', "are both called mine@new"),
    ],
)
def test_another_environment(kernels, tmp_path, says, words):
    python = tmp_path / "env/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\necho '{says}'\n")
    python.chmod(0o755 if says else 0)
    (tmp_path / "new").symlink_to("env")
    versions = [f"venv:{tmp_path}/{place}" for place in ("env", "new/bin/python", "new")]
    with refused(f"--softbench-against: .*{words}"):
        revisions.find_all(versions, [kernels])
    if "both" in words:
        names = {(v.implementation, v.interpreter) for v in revisions.find_all(versions[:2], [kernels])}
        assert names == {("mine@env", str(python)), ("mine@new", f"{tmp_path}/new/bin/python")}


def test_a_folder_outside_of_git(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with refused("not a git repository"):
        found(tmp_path, "HEAD")


def test_a_folder_that_was_not_there_then(kernels):
    new = kernels.with_name("new")
    new.mkdir()
    (new / "a.py").write_text(KERNEL)
    with refused("git archive in "):
        found(new)


def test_a_repository_of_kernels_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("SOFTBENCH_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "mine.py").write_text(KERNEL)
    first_commit(folder)
    assert found(folder, "HEAD")[0].implementation == "mine@HEAD"
    assert len(list((tmp_path / "cache-against").glob("*/*"))) == 1  # nothing else is left


def test_a_cache_that_cannot_be_written_is_one_line(kernels, tmp_path):
    (tmp_path / "cache-against").write_text("a file")
    with refused(r"--softbench-against: .* at [0-9a-f]{12} cannot be unpacked: .*Not a directory"):
        found(kernels)
