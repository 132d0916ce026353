"""`holter completion SHELL`: print what completes commands, options and names of jobs in a shell."""

from __future__ import annotations

import argparse
import contextlib
import io
from importlib import import_module

from holter.cli import options

ABOUT = "Print a script that completes commands, options and names of jobs in a shell."
EXAMPLES = """  source <(holter completion bash)     # in ~/.bashrc
  holter completion zsh > ~/.zfunc/_holter   # a folder of $fpath
  holter completion tcsh > ~/.holter.tcsh"""

_JOBS = {"JOB", "BASELINE", "JOB|TRACE"}
_FILES = {"FILE", "PATH", "URL", "STORE", "DIR"}
_PREAMBLE = {
    "bash": """
_holter_jobs() {
  compgen -W "latest $(command ls -1 "${HOLTER_STORE:-holter-jobs}" 2>/dev/null)" -- "$1"
}
""",
    "zsh": """
_holter_jobs() {
  compadd latest ${(f)"$(command ls -1 ${HOLTER_STORE:-holter-jobs} 2>/dev/null)"}
}
""",
}


def main(words: list[str]) -> int:
    """Run `holter completion`."""
    import shtab

    parser = options.Parser("completion", ABOUT, EXAMPLES)
    parser.add_argument("shell", metavar="SHELL", help=", ".join(shtab.SUPPORTED_SHELLS))
    given = parser.read(words)
    options.check_choice("shell", given.shell, shtab.SUPPORTED_SHELLS)
    print(
        shtab.complete(
            _all_commands(), given.shell, root_prefix="holter", preamble=_PREAMBLE.get(given.shell, "")
        )
    )
    return 0


def _all_commands() -> argparse.ArgumentParser:
    """Return one parser that has the parsers of all commands below it."""
    from holter.cli import COMMANDS

    root = argparse.ArgumentParser("holter")
    below = root.add_subparsers()
    for name, about in COMMANDS.items():
        inside = getattr(import_module(f"holter.cli.commands.{name}"), "SUBCOMMANDS", None)
        if inside:
            inner = below.add_parser(name, help=about).add_subparsers()
            for each in inside:
                inner.add_parser(each, help="", parents=[_parser_of(name, each)], add_help=False)
        else:
            below.add_parser(name, help=about, parents=[_parser_of(name)], add_help=False)
    return root


def _parser_of(name: str, *words: str) -> options.Parser:
    """Return the parser of a command, which it makes to print its help."""
    import shtab

    command = import_module(f"holter.cli.commands.{name}")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        command.main([*words, "--help"])
    for action in options.Parser.newest._actions:
        if action.metavar in _JOBS:
            action.complete = dict.fromkeys(_PREAMBLE, "_holter_jobs")  # type: ignore[attr-defined]
        elif action.metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    return options.Parser.newest
