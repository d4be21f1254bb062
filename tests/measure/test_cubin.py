"""Resources of a cubin."""

import importlib
import subprocess
import sys

import pytest

from softbench.measure import cubin
from softbench.model import KernelResources

pytest.importorskip("triton")


def usage(name, shared):
    return f" Function {name}:\n  REG:40 STACK:8 SHARED:{shared} LOCAL:0 CONSTANT[0]:560 TEXTURE:0 SURFACE:0 SAMPLER:0\n"


@pytest.fixture
def dump(monkeypatch, tmp_path):
    def install(text):
        tool = tmp_path / "cuobjdump"
        tool.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
        tool.chmod(0o755)
        monkeypatch.setattr(cubin, "cuobjdump", lambda: tool)

    return install


def test_all_kernels_are_read_and_named_if_one_is_unknown(dump):
    dump("Resource usage:\n Common:\n  GLOBAL:0\n" + usage("second", 1024) + usage("_Z5firstv", 0))
    found = KernelResources("second", 40, 8, 1024), KernelResources("_Z5firstv", 40, 8, 0)
    assert cubin.resources(b"x") == found
    assert cubin.resources(b"x", "_Z5firstv") == found[1:]
    with pytest.raises(ValueError, match="no kernel 'other' in the cubin; it holds second, _Z5firstv"):
        cubin.resources(b"x", "other")


def test_bytes_that_are_no_cubin_say_what_the_tool_says():
    with pytest.raises(ValueError, match=r"finds no kernel in 8 bytes; it says: .*cuobjdump"):
        cubin.resources(b"nonsense")


def test_the_tool_is_last_taken_from_cuda_home(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    cubin.cuobjdump.cache_clear()
    with pytest.raises(cubin.ToolMissing, match="CUDA_HOME"):
        cubin.resources(b"nonsense")
    tool = tmp_path / "bin" / "cuobjdump"
    tool.parent.mkdir()
    tool.touch(mode=0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    cubin.cuobjdump.cache_clear()
    assert cubin.cuobjdump() == tool
    cubin.cuobjdump.cache_clear()


def test_imports_neither_torch_nor_triton():
    code = "import sys, softbench.measure.cubin as c, softbench.measure.roof; c.cuobjdump()"
    code += "; assert not {'torch', 'triton'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)
