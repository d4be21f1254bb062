"""The command `softbench`: what can be made of runs on disk from their records alone, what is here, and what to trust here."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from softbench import packages
from softbench.cli.command import CommandResult
from softbench.cli.parser import COMMANDS, parser
from softbench.resources import choose_from
from softbench.texts import InputError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it is done, 2 with one line on stderr when something given cannot be used.

    1 where the doctor finds something wrong, or a comparison exceeds its limit.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and not given[0].startswith("-") and given[0] not in (names := [command.name for command in COMMANDS]):
        print(f"softbench: no command {given[0]!r:.60}; {choose_from(given[0], names)}", file=sys.stderr)
        return 2
    options = parser().parse_args(given)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that knows no "†" is no reason to say nothing
    try:
        said: CommandResult = options.command(options)
        sys.stdout.write(said[0])
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()  # the reader (head, less) has seen enough
    except KeyboardInterrupt:
        return 130
    except InputError as error:
        print(f"softbench: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        print(f"softbench: {packages.advice(error.name or '')}", file=sys.stderr)
        return 2
    except OSError as error:
        if not error.filename:
            _forget_output()  # what is left of it would be written once more at the end, and fail again
        print(f"softbench: {error.filename or 'the output'} cannot be written ({error.strerror})", file=sys.stderr)
        return 2
    return said[1]


def _forget_output() -> None:
    """Without this the interpreter would complain at its end that the rest cannot be written either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
