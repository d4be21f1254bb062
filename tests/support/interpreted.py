"""Scripts in Triton's interpreter, which is chosen before a kernel is decorated: each in a process of its own."""

from support.scripts import script


def interpreted(folder, code):
    """Run a script, from a file in the folder, where the interpreter reads its kernels. It must end well."""
    path = folder / "script.py"
    path.write_text(code)
    done = script(f"import runpy; runpy.run_path({str(path)!r})", TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stderr[-3000:]
