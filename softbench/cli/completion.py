"""`softbench completion`: a shell script that completes commands, options, choices and the ids of runs."""

import argparse
from collections.abc import Iterator

from softbench.cli.command import Command, CommandResult, argument

SHELLS = ("bash", "zsh")
_SCRIPT = """\
# Completion of softbench for {shell}; made by: softbench completion {shell}
{before}_softbench_runs() {{
    local file found="latest"
    for file in reports/*.jsonl reports/*.jsonl.[gx]z; do
        [ -e "$file" ] && file="${{file##*/}}" && file="${{file%.[gx]z}}" && found="$found ${{file%.jsonl}}"
    done
    COMPREPLY=($(compgen -W "$found" -- "$1") $(compgen -f -- "$1"))
}}
_softbench() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" command="${{COMP_WORDS[1]}}"
    local IFS=$' \\t\\n'
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands} --help --version" -- "$word"))
        return
    fi
    case "$command $previous" in
{choices}
    esac
    case "$word:$command" in
{options}
{runs}) _softbench_runs "$word"; return ;;
    esac
    COMPREPLY=($(compgen -f -- "$word"))
}}
complete -o filenames -F _softbench softbench
"""
"""Only what bashcompinit of zsh understands too."""
_RUN_WORDS = {"RUN", "A", "B"}


def _run(options: argparse.Namespace) -> CommandResult:
    (commands,) = (action for action in options.parser._actions if isinstance(action, argparse._SubParsersAction))
    known: dict[str, argparse.ArgumentParser] = dict(commands.choices)
    takes_runs = [name for name, sub in known.items() if any(map(_is_run, sub._get_positional_actions()))]
    text = _SCRIPT.format(
        shell=options.shell,
        before="autoload -U +X bashcompinit && bashcompinit\n" if options.shell == "zsh" else "",
        commands=" ".join(known),
        choices="\n".join(line for name, sub in known.items() for line in _choices(name, sub)),
        options="\n".join(_reply(f"-*:{name}", _flags(sub)) for name, sub in known.items()),
        runs="    " + " | ".join(f"*:{name}" for name in takes_runs),
    )
    return text, 0


def _choices(name: str, sub: argparse.ArgumentParser) -> Iterator[str]:
    for action in sub._actions:
        if action.choices:
            before = action.option_strings[-1] if action.option_strings else name
            yield _reply(f'"{name} {before}"', [str(choice) for choice in action.choices])
        elif action.option_strings and _is_run(action):
            yield f'    "{name} {action.option_strings[-1]}") _softbench_runs "$word"; return ;;'


def _is_run(action: argparse.Action) -> bool:
    return action.metavar in _RUN_WORDS


def _flags(sub: argparse.ArgumentParser) -> list[str]:
    return [text for action in sub._actions for text in action.option_strings if text.startswith("--")]


def _reply(pattern: str, words: list[str]) -> str:
    return f'    {pattern}) COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$word")); return ;;'


COMMAND = Command(
    "completion",
    "print a shell script that completes commands, options and runs",
    (
        ("softbench completion bash", 'eval "$(softbench completion bash)"; permanently, in ~/.bashrc'),
        ("softbench completion zsh", "the same in ~/.zshrc, after compinit"),
    ),
    (argument("shell", choices=SHELLS, help="the shell that is to complete"),),
    _run,
)
