"""Plain `pytest` in a checkout that lacks packages of the tests: their files are skipped, and say what to install."""

import pytest
from support.children import python


@pytest.mark.parametrize(("package", "file"), [("hypothesis", "records/test_fuzz.py"), ("pyte", "session/test_terminal.py")])
def test_a_file_that_lacks_a_package_is_skipped(tmp_path, package, file):
    missing = f"No module named {package!r}"
    (tmp_path / f"{package}.py").write_text(f"raise ModuleNotFoundError({missing!r}, name={package!r})")
    command = ("-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "--collect-only")
    path = {"PYTHONPATH": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = python(*command, f"tests/{file}", "tests/session/test_guard.py", **path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SKIPPED [1] tests/{file}: {missing}: pip install 'softbench[test]'" in done.stdout
    assert "tests/session/test_guard.py::" in done.stdout
