"""What --format json prints, held against softbench/render/schema.py."""

import json

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from softbench.render.schema import SCHEMA, of_command


def tables_of(command):
    return of_command({"report": "table"}.get(command, command))


def valid(text):
    """The tables of an output: one line of ASCII, as the schema says."""
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
