"""The instructions of compiled kernels, many at a time: nvdisasm takes longer to start than to read a hundred of them."""

import re
import struct
import subprocess
import tempfile

from softbench.measure.cubin import cuobjdump

_ADDRESS = re.compile(r"^\s*/\*([0-9a-f]+)\*/\s+(\S.*?)\s*;", re.M)


def kernels(*cubins):
    """{kernel: its instructions, one a line} of each cubin. Addresses of branches are not those in the cubin."""
    code, ends = b"", []
    for number, cubin in enumerate(cubins):
        for name, text in _texts(cubin):
            code += text
            ends.append((len(code), number, name))
    found = [{} for _ in cubins]
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        file.write(code)
        file.flush()
        command = [cuobjdump().with_name("nvdisasm"), "-b", "SM90a", file.name]
        listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [(int(address, 16), text) for address, text in _ADDRESS.findall(listing)]
    start = position = 0
    for end, number, name in ends:
        while position < len(lines) and lines[position][0] < end:
            position += 1
        found[number][name] = "\n".join(text for _, text in lines[start:position])
        start = position
    return found


def sass(*cubins):
    return ["\n".join(named.values()) for named in kernels(*cubins)]


def _texts(cubin):
    """The sections of an ELF that hold instructions, by the kernels' names."""
    assert cubin[:4] == b"\x7fELF"
    (headers,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", cubin, headers + number * size) for number in range(count)]
    found = []
    for name_at, _, _, _, offset, length in sections:
        begin = sections[names][4] + name_at
        name = cubin[begin : cubin.index(b"\0", begin)].decode()
        if name.startswith(".text."):
            found.append((name.removeprefix(".text."), cubin[offset : offset + length]))
    return found
