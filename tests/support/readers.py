"""Readers who do what docs/tutorial.md and docs/how-to.md say."""

from support.paths import ROOT
from support.projects import bench, record_lines
from support.recipes import blocks, missing

TUTORIAL = blocks(ROOT / "docs" / "tutorial.md")
SECOND_HALF = blocks(ROOT / "docs" / "tutorial-operators.md")
HOW_TO = blocks(ROOT / "docs" / "how-to.md")
FILES = {block.value: block.text for block in SECOND_HALF if block.mark == "file"}
"""Of a project with operators of its own."""
VIEWS = ("padded-1", "strided-2", "offset-1")


def follow(reader, with_gpu, page=TUTORIAL):
    typed = []
    said = ""
    for block in page:
        where = f"line {block.line}"
        if block.language == "text":
            assert missing(block, said) == [], f"{where}, of:\n{said}"
        elif block.language in ("python", "yaml"):
            reader.write(block)
        elif block.mark != "install" and (with_gpu or block.mark != "gpu"):
            done = reader.type(block)
            said = done.stdout
            assert done.returncode == (int(block.value) if block.mark == "exit" else 0), f"{where}\n{said}"
            typed.append(block)
    return typed


def write_blocks(folder, language):
    for block in HOW_TO:
        if block.language == language:
            path = folder / block.value
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")


def ran(folder, **environment):
    """{(implementation, layout): status}; one word where all shapes agree."""
    write_blocks(folder, "python")
    write_blocks(folder, "yaml")
    names = "my_norm or any_view or row_block"
    bench(folder, "--softbench-profile=model", "-k", names, code=0, **environment)
    _, *cells = record_lines(folder)
    found = {}
    for cell in cells:
        if cell["role"] == "entrant":
            key = cell["variant"]["implementation"], cell["case"]["layout"]
            found.setdefault(key, set()).add(cell["status"])
    return {key: "+".join(sorted(statuses)) for key, statuses in found.items()}


def expected(**words):
    found = {(name, "contiguous"): word for name, word in words.items()}
    for view in VIEWS:
        found |= {("any_view", view): words["any_view"], ("row_block", view): "UNSUPPORTED"}
    return found
