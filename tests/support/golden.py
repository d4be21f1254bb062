"""Whole outputs as files in tests/support/data, to be read and compared."""

import re
from pathlib import Path

_ELEMENT = re.compile(r"(?<=expected )[\d.e-]+ \(allowed \+-[\d.e-]+\)")
"""The right value of an element, which another torch may draw otherwise."""
DATA = Path(__file__).parent / "data"


def differences(name, text):
    """Why a text is not the golden file; "" if it is. A missing file is written: delete it to renew it."""
    path, text = DATA / name, _ELEMENT.sub("#", text)
    if not path.exists():
        path.write_text(text, encoding="utf-8")
        return f"{path} is new: read it, and run again"
    kept = path.read_text(encoding="utf-8")
    return "" if text == kept else f"not as in {path}; to renew that file, delete it and run the test again:\n{text}"
