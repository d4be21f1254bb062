"""What --format json prints, held against softbench/render/schema.json."""

import json

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from support.paths import ROOT

SCHEMA = json.loads((ROOT / "softbench" / "render" / "schema.json").read_text(encoding="utf-8"))


def tables_of(command):
    """The tables of a command in the schema."""
    for form in SCHEMA["oneOf"]:
        known = form["properties"]["command"]
        if command in known.get("enum", [known.get("const")]):
            return form["properties"]["tables"]["properties"]
    raise AssertionError(f"the schema has no command {command}")


def valid(text):
    """The tables of an output, which is one line of ASCII and as the schema says."""
    assert text.isascii()
    assert text.index("\n") == len(text) - 1
    whole = json.loads(text, parse_constant=refused)
    own = tables_of(whole["command"])
    for name, rows in whole["tables"].items():
        assert name in own, f"the schema has no table {name} of {whole['command']}"
        error = best_match(Draft202012Validator({**own[name], "$defs": SCHEMA["$defs"]}).iter_errors(rows))
        assert error is None, f"{whole['command']}, {name}, {list(error.path)}: {error.message}"
    Draft202012Validator(SCHEMA).validate(whole)
    return whole["tables"]


def refused(name):
    raise AssertionError(f"{name} is no JSON")
