"""A file of implementations that is not Python: it fails by itself, and all others are measured."""

import pytest
from support.projects import bench, project, record_lines


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_syntax_error_costs_its_own_file_only(tmp_path, workers):
    folder = project(tmp_path)
    (folder / "kernels" / "mine" / "broken.py").write_text("import softbench\nx = (\n")
    done = bench(folder, "-k", "own_right or broken", *workers, code=1)
    assert "kernels/mine/broken.py:2: not valid Python: '(' was never closed" in done.stdout
    assert "1 failed, 1 passed" in done.stdout
    found = {row["variant"]["implementation"]: row["status"] for row in record_lines(folder) if row["kind"] == "cell"}
    assert found["own_right"] == "PASSED"


def test_who_asks_for_others_is_not_told_of_it(tmp_path):
    folder = project(tmp_path)
    (folder / "kernels" / "mine" / "broken.py").write_text("import softbench\nx = (\n")
    bench(folder, "-k", "own_right", code=0)
