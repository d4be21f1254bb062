"""PNG from SVG, by rsvg-convert or Chromium: drawing letters needs fonts and a text engine, which those have."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from softbench.texts import InputError

FINENESS = 2
"""Pixels of the PNG per pixel of the SVG."""
CONVERTERS = ("rsvg-convert",)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TIMEOUT_S = 60
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def png(svg: str) -> bytes:
    """PNG bytes of an SVG document that gives its width and height in pixels, at `FINENESS` times that size.

    Raises InputError if no program to draw it is installed, or if one fails.
    """
    with tempfile.TemporaryDirectory(prefix="softbench-") as folder:
        source, target = Path(folder) / "figure.svg", Path(folder) / "figure.png"
        source.write_text(svg, encoding="utf-8")
        command = _command(source, target)
        try:
            done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, text=True, errors="replace", check=False)
            error_line = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        except subprocess.TimeoutExpired:
            error_line = f"no answer in {TIMEOUT_S} s"
        except OSError as error:
            error_line = str(error.strerror)
        picture = target.read_bytes() if target.is_file() else b""
    if not picture.startswith(SIGNATURE):
        raise InputError(f"{command[0]} made no PNG ({error_line!r:.200}); write .svg, or save it by the page's button")
    return picture


def _command(source: Path, target: Path) -> Sequence[str]:
    for name in CONVERTERS:
        if program := shutil.which(name):
            return (program, f"--zoom={FINENESS}", f"--output={target}", str(source))
    chosen = os.environ.get("SOFTBENCH_CHROMIUM")
    for name in [chosen] if chosen else BROWSERS:
        if program := shutil.which(name):
            return (program, *_headless(source, target))
    instead = "install one, write .svg, or save it by the page's button"
    raise InputError(f"a PNG takes rsvg-convert (of librsvg) or Chromium, and neither is here: {instead}")


def _headless(source: Path, target: Path) -> list[str]:
    """Chromium's arguments: a separate profile, so that a running Chromium does not interfere; root may not use the sandbox."""
    width, height = re.findall(r' (?:width|height)="(\d+)"', source.read_text(encoding="utf-8"))[:2]
    return [
        "--headless",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
        *("--disable-gpu", "--hide-scrollbars", f"--user-data-dir={target.parent / 'profile'}"),
        *(f"--force-device-scale-factor={FINENESS}", f"--window-size={width},{height}"),
        *(f"--screenshot={target}", source.as_uri()),
    ]
