"""PNG from SVG, by a program that draws SVG where one is here: letters need a font and who sets it, which is no task of ours."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from softbench.texts import InputError

FINENESS = 2
"""Pixels of a PNG to one of the SVG's."""
CONVERTERS = ("rsvg-convert",)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TIMEOUT_S = 60
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def png(svg: str) -> bytes:
    """The picture of a document that says its width and height in pixels.

    Raises InputError where no program is here that could draw it, and where one has failed.
    """
    with tempfile.TemporaryDirectory(prefix="softbench-") as folder:
        source, target = Path(folder) / "figure.svg", Path(folder) / "figure.png"
        source.write_text(svg, encoding="utf-8")
        command = _command(source, target)
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=TIMEOUT_S, text=True, errors="replace", check=False
            )
            said = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        except subprocess.TimeoutExpired:
            said = f"no answer in {TIMEOUT_S} s"
        except OSError as error:
            said = str(error.strerror)
        made = target.read_bytes() if target.is_file() else b""
    if not made.startswith(SIGNATURE):
        raise InputError(f"{command[0]} made no PNG ({said!r:.200}); write .svg, or save it by the page's button")
    return made


def _command(source: Path, target: Path) -> Sequence[str]:
    for name in CONVERTERS:
        if program := shutil.which(name):
            return (program, f"--zoom={FINENESS}", f"--output={target}", str(source))
    named = os.environ.get("SOFTBENCH_CHROMIUM")
    for name in [named] if named else BROWSERS:
        if program := shutil.which(name):
            return (program, *_headless(source, target))
    raise InputError(
        "a PNG takes rsvg-convert (of librsvg) or Chromium, and neither is here: install one, write .svg, "
        "or save it by the page's button"
    )


def _headless(source: Path, target: Path) -> list[str]:
    """A profile of its own keeps away from a Chromium that is running; root may not use the sandbox."""
    width, height = re.findall(r' (?:width|height)="(\d+)"', source.read_text(encoding="utf-8"))[:2]
    return [
        "--headless",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
        *("--disable-gpu", "--hide-scrollbars", f"--user-data-dir={target.parent / 'profile'}"),
        *(f"--force-device-scale-factor={FINENESS}", f"--window-size={width},{height}"),
        *(f"--screenshot={target}", source.as_uri()),
    ]
