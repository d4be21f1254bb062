"""The JSON schema of what `softbench COMMAND --format json` prints: `python -m softbench.render.schema` writes it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from softbench.model import Status

Schema = dict[str, Any]
TYPES: Mapping[str, Schema] = {
    "text": {"type": "string"},
    "texts": {"type": "array", "items": {"type": "string"}},
    "flag": {"type": "boolean"},
    "count": {"type": "integer", "minimum": 0},
    "count_or_null": {"type": ["integer", "null"], "minimum": 0},
    "counts": {
        "description": "Whole nanoseconds, or the lengths of a shape.",
        "type": "array",
        "items": {"type": "integer", "minimum": 0},
    },
    "figure": {
        "description": "null if it is unknown, was not measured, or is not finite.",
        "type": ["number", "null"],
        "minimum": 0,
    },
    "number": {"type": ["number", "null"]},
    "signed_share": {"type": ["number", "null"], "minimum": -1, "maximum": 1},
}
NOT_ALWAYS = ("limit", "samples", "kernels", "telemetry", "lines", "calibrations", "cheats", "contests")
"""Tables that a command prints only if it was asked for them, or has them."""


def columns(words: Mapping[str, Sequence[str]] | None = None, **of_type: str) -> Schema:
    """A row with these columns: names by type, and those that hold one of some words."""
    found: Schema = {name: {"$ref": f"#{kind}"} for kind, names in of_type.items() for name in names.split()}
    found |= {name: {"enum": list(known)} for name, known in (words or {}).items()}
    return {"type": "object", "required": list(found), "properties": found}


def rows(description: str, base: str = "", /, **names: Any) -> Schema:
    """A table whose rows have these columns and no others, beside those of a base."""
    closed = {"$ref": f"#{base}", "unevaluatedProperties": False} if base else {"additionalProperties": False}
    return {"description": description, "type": "array", "items": columns(**names) | closed}


ROWS = {
    "cell": {"description": "One cell of a run; docs/records.md says what each figure is."}
    | columns(
        text=(
            "case operator dtype out_dtype layout distribution implementation variant family open_because cache reason reproduce"
        ),
        counts="shape",
        flag="timed declared dagger",
        count_or_null=(
            "rank registers stack_bytes shared_bytes read_bytes written_bytes kernels_ns load_sectors load_requests "
            "local_sectors bank_conflicts error_elements"
        ),
        count="best_of",
        figure=(
            "latency_ns low_ns high_ns bandwidth_gb_s tflop_s percent_of_roof speedup call_ns device_ns "
            "traffic_factor l1_hit_percent l2_hit_percent warps_percent error_largest error_p99"
        ),
        signed_share="error_bias",
        texts="notes",
        words={
            "role": ["entrant", "reference", "roof"],
            "status": [status.value for status in Status],
            "mark": ["", "=", "?"],
            "tier": ["", "sealed", "open"],
        },
    ),
    "compared_cell": {
        "description": "One cell in two runs. ratio, low and high are time over the roof's, after / before: above 1 is slower. "
        "Statuses are as tables show them, such as INCORRECT (xfail)."
    }
    | columns(
        text="case implementation status_before status_after source_before source_after reason_after",
        figure="ratio low high latency_ns_before latency_ns_after percent_of_roof_before percent_of_roof_after",
        count_or_null="placements",
        texts="notes",
        words={"moved": ["", "fell", "rose", "changed"], "verdict": ["", "slower", "faster", "cannot tell", "same"]},
    ),
}
TABLES = {
    "table cells": rows("Every cell, also those of the roof and of variants that were not chosen.", "cell", text="machine"),
    "table standings": rows(
        "The ranking. score_percent is in % of roof, speedup a factor over the baseline; failed_hard has the cases "
        "of the dagger, open_cases those whose time is open and does not count; weighted_ns sums weight x time.",
        text="machine operator implementation family",
        count_or_null="rank",
        figure="score_percent score_low score_high speedup speedup_low speedup_high weighted_ns weighted_speedup "
        "weighted_low weighted_high",
        count="passed timed speedup_cases wins ties",
        texts="failed_hard open_cases",
    ),
    "table machines": rows(
        "The boards. Of figures on two machines only percent_of_roof may be compared.",
        text="machine clock baseline",
        texts="runs notes",
        count="cases missing_cases",
    ),
    "compare cells": rows("The cells of both runs, in the order of the older run.", "compared_cell"),
    "compare runs": rows("The two runs.", text="run", words={"which": ["before", "after"]}),
    "compare changes": rows("What else differs.", text="what before after"),
    "compare roof": rows("The roof's own time, after / before, of each case with the same roof kernel.", figure="ratio"),
    "compare not_compared": rows("Cells of one run only, and those that cannot be compared.", text="cell reason"),
    "compare limit": rows(
        "With --fail-on, one row: whether the limit holds, and the cells that fail it.",
        figure="limit_share",
        flag="holds",
        texts="failing_cells",
        count="unclear_cells",
    ),
    "bisect steps": rows(
        "The contests of two commits. ratio, low and high are the time of commit over that of against: above 1 is slower.",
        text="commit subject against status status_against reason",
        figure="ratio low high latency_ns latency_ns_against",
        count="placements",
        texts="runs",
        words={"verdict": ["good", "bad", "cannot tell"]},
    ),
    "bisect result": rows(
        "One row. commits are those of which one is the first bad one: a single one if it was found. limit_ratio is "
        "the ratio from which a commit counts as slower.",
        text="implementation case good bad subject author day",
        figure="limit_ratio",
        flag="found",
        texts="commits",
        words={"question": ["", "slower", "wrong"]},
    ),
    "history scores": rows(
        "Scores in % of roof. Those of one history may be compared if their case_set is the same.",
        count="history case_set",
        text="operator implementation run",
        figure="score_percent",
    ),
    "history cells": rows("The cells of --cells.", count="history", text="case implementation run", figure="percent_of_roof"),
    "history steps": rows(
        "Cells that changed in a run, against the run since.", "compared_cell", count="history", text="run since operator"
    ),
    "history changes": rows(
        "What else changed at a step.", count="history", text="run since operator implementation what before after"
    ),
    "history runs": rows(
        "All runs by time, in one history per machine and clock.",
        count="history timed_cases",
        text="machine clock run started driver commit",
    ),
    "history unread": rows("Files that are left out.", text="error"),
    "show cells": rows("The cell, or without NAME all cells of the case.", "cell"),
    "show samples": rows(
        "One row per clock and placement; a sample is the time of all its launches.",
        text="clock cache",
        count="heat launches placement",
        counts="sample_ns",
    ),
    "show kernels": rows("Compiled kernels.", text="name", count="registers stack_bytes shared_bytes"),
    "show telemetry": rows(
        "The GPU in each placement.",
        count="placement",
        count_or_null="sm_clock_mhz memory_clock_mhz power_w temperature_c",
        text="throttle",
    ),
    "show lines": rows(
        "Lines of a failure, and the command that repeats the cell.", text="line", words={"of": ["traceback", "output", "repeat"]}
    ),
    "list implementations": rows(
        "here says what a run does with it: yes is to time it.",
        text="implementation family",
        texts="operators requires",
        count="variants",
        flag="only_if_named",
        words={"here": ["yes", "checked", "compiled", "no"]},
    ),
    "list requirements": rows("missing says what this machine lacks; empty if nothing.", text="requirement missing"),
    "list machine": rows("This machine, one row.", text="name", flag="has_gpu"),
    "review submissions": rows(
        "What became of each submission.",
        text="submission reason",
        words={"verdict": ["new", "known", "tampered", "doubled", "not comparable", "refused"]},
    ),
    "claims claims": rows(
        "value, low and high are the figure that decides and its interval, in the unit of the measure; null without one.",
        text="source statement measured measure would_hold",
        number="value low high least most",
        words={"verdict": ["holds", "refuted", "cannot tell"]},
    ),
    "claims cells": rows("The cells of the implementations in question.", "cell"),
    "doctor findings": rows("Every line that the text has.", text="part text", words={"kind": ["finding", "failure", "trust"]}),
    "doctor calibrations": rows(
        "What each clock read for kernels of known duration.", text="clock fault", counts="known_ns read_ns"
    ),
    "doctor cheats": rows(
        "The known cheats and mistakes.", text="implementation status reason", words={"outcome": ["caught", "missed", "not tried"]}
    ),
    "doctor contests": rows(
        "One kernel against itself.",
        figure="ratio low high",
        count="placements",
        words={"verdict": ["faster", "slower", "tied", "unknown"]},
    ),
}
"""By command and name."""


def of_command(command: str) -> Schema:
    return {key.split()[1]: own for key, own in TABLES.items() if key.split()[0] == command}


def _form(command: str) -> Schema:
    tables = of_command(command)
    return {
        "properties": {
            "command": {"enum": ["report", "table"]} if command == "table" else {"const": command},
            "tables": {
                "type": "object",
                "required": [name for name in tables if name not in NOT_ALWAYS],
                "properties": tables,
                "additionalProperties": False,
            },
        }
    }


SCHEMA: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "What softbench COMMAND --format json prints",
    "type": "object",
    "required": ["schema", "command", "tables"],
    "properties": {
        "schema": {"description": "Number of the format: another one if a column goes or changes its meaning.", "const": 1},
        "command": {"type": "string"},
        "tables": {"type": "object"},
    },
    "additionalProperties": False,
    "oneOf": [_form(command) for command in dict.fromkeys(key.split()[0] for key in TABLES)],
    "$defs": {name: {"$anchor": name, **own} for name, own in {**TYPES, **ROWS}.items()},
}

if __name__ == "__main__":
    print(json.dumps(SCHEMA, indent=1))
