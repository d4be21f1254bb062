"""Where and with what the run was made, and how to repeat it."""

import json

from softbench.analysis.leaderboard.formatting import short
from softbench.model import Passport
from softbench.render.report.contents import Contents
from softbench.render.report.html import Markup, copyable, esc, join, panel, row_head, table, tag

LONGER = "; its command is longer than what is kept, and this one runs all of its profile"


def passport(contents: Contents) -> Markup:
    parts: list[Markup] = []
    for run in reversed(contents.passports):
        parts += [tag("h3", tag("bdi", run.run_id))] if len(contents.passports) > 1 else []
        longer = LONGER * run.command.endswith("…")
        parts.append(tag("p", f"To repeat the run, on such a machine and with these versions{longer}:"))
        parts += map(copyable, commands(run))
        compare = f"softbench compare EARLIER {run.run_id} --output changes.html"
        parts += [tag("p", "To see what changed since another run, by its id or the path of its records:"), copyable(compare)]
        parts.append(tag("details", tag("summary", "All that is known of it"), _fields(run), class_="small print-open"))
    return panel("passport", "Repeat and compare", *parts)


def commands(run: Passport) -> list[str]:
    """The checkout of the commit, if it is known and clean, then the command with its seed."""
    command = run.command
    if command.endswith("…"):
        kept = (("", "selection"), ("--softbench-budget=", "budget_s"))
        found = [f"{option}{run.settings[key]}" for option, key in kept if run.settings.get(key)]
        found += [f"--softbench-{key.replace('_', '-')}" for key in ("traffic", "device_clock") if run.settings.get(key)]
        command = " ".join(["pytest --softbench", *found])
    seeded = command if "--softbench-seed" in command else f"{command} --softbench-seed={run.seed}"
    known = run.commit and not run.commit.endswith("+")
    return [*([f"git checkout {run.commit}"] if known else []), seeded]


def _fields(run: Passport) -> Markup:
    fields = {key: value for key, value in vars(run).items() if value not in ("", {}, ())}
    rows = [[row_head(key.replace("_", " ")), tag("td", _value(value), class_="text")] for key, value in fields.items()]
    return table(["field", "value"], rows, label=f"passport of {short(run.run_id, 60)}")


def _value(value: object) -> Markup:
    if isinstance(value, dict):
        return join((tag("bdi", f"{key}: {_plain(value[key])}") for key in sorted(value)), Markup("<br>"))
    return esc(_plain(value))


def _plain(value: object) -> str:
    if isinstance(value, tuple) and all(isinstance(entry, str) for entry in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
