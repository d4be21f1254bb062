"""Many values in one test: a grid of pure values needs no id for each."""

import functools
import inspect

import pytest


def over(names, values):
    """As pytest.mark.parametrize, but one test: it tries every value and then fails with all that failed, each named.

    For tests that keep nothing from one value to the next. It is skipped where every value is.
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [tuple(row) if len(keys) > 1 else (row,) for row in values]

    def decorate(test):
        @functools.wraps(test)
        def run(**fixtures):
            failures, skipped = [], []
            for row in rows:
                try:
                    test(**fixtures, **dict(zip(keys, row, strict=True)))
                except pytest.skip.Exception as reason:
                    skipped.append(reason)
                except (Exception, pytest.fail.Exception) as error:
                    failures.append((row, error))
            if failures:
                said = "\n".join(f"{row}: {type(error).__name__}: {error}" for row, error in failures)
                pytest.fail(f"{len(failures)} of {len(rows)} values:\n{said}")
            if rows and len(skipped) == len(rows):
                raise skipped[0]

        signature = inspect.signature(test)
        rest = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        run.__signature__ = signature.replace(parameters=rest)
        return run

    return decorate
