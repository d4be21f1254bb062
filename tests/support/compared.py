"""An old and a new run of one machine, each with its roof."""

from support.builders import roof_of, run, softmax_case

HARD = softmax_case(16, 64, timed=False, distribution="nan_first")


def contest(case, *records, roof=4_000, **changes):
    return [*records, roof_of(case, roof, **changes)]


def day(number, *records, **changes):
    return run(records, run_id=f"r{number}", started=f"2026-01-{number:02}T00:00:00Z", **changes)


def old(*records, **changes):
    return run(records, run_id="old", **changes)


def new(*records, **changes):
    return run(records, run_id="new", started="2026-01-03T00:00:00Z", **changes)
