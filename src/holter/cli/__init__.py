"""The command `holter`: finds the sub-command, says in one line what is wrong, returns the exit code."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from holter.cli import streams

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "run": "record a training: holter run -- python train.py",
    "demo": "watch holter diagnose a built-in sick training",
    "jobs": "list the jobs of a store",
    "describe": "everything known of one job",
    "diagnose": "why a job is slow or sick, with the evidence",
    "rules": "list, show or run the rules that judge a job",
    "profile": "look closer at a few steps of a running job",
    "compare": "what changed between jobs, and what that is worth",
    "check": "did steps get slower? for continuous integration",
    "configure": "change the sampling interval of a running job",
    "report": "everything about a job in one HTML file",
    "ui": "the jobs as live pages on this machine",
    "import": "read traces of torch.profiler, Nsight Systems or XPlane into a job",
    "export": "write a job as files for Perfetto, TensorBoard and others",
    "stop": "stop a running job gracefully",
    "recover": "store what a killed agent left behind, and close its job",
    "prune": "delete old jobs (asks first)",
    "doctor": "what can and cannot be measured on this machine, and why",
}
"""Every command and what it does; the module of the same name in `cli/commands` implements it."""

INTERRUPTED = 130
BROKEN_PIPE = 141
NOT_WRITTEN = 74
NEEDS_NEWER_PYTHON = 69


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; never raises for what a user typed."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    # A log on a full disk, or a terminal that is gone, must not cost a training.
    streams.prepare(drops_output=words[:1] == ["run"])
    if sys.version_info < (3, 11):
        found = ".".join(map(str, sys.version_info[:2]))
        print(
            f"holter: the commands need Python 3.11 or newer, this is {found}; the training may run on 3.10: "
            "install holter into an environment of its own and run the training's python under it",
            file=sys.stderr,
        )
        return NEEDS_NEWER_PYTHON
    try:
        code = _dispatch(words)
        sys.stdout.flush()
        return code
    except SystemExit as done:  # argparse has printed the help
        return int(done.code or 0)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return BROKEN_PIPE  # whoever read our output went away
    except OSError:
        if (lost := streams.lost()) is None:
            raise
        print(f"holter: standard output cannot be written: {lost.strerror}", file=sys.stderr)
        return NOT_WRITTEN


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0
    if words[0] in ("-V", "--version", "version"):
        from holter import __version__

        print(f"holter {__version__}")
        return 0
    from holter.cli.options import Refusal, nearest, warn, wrapped

    name = words[0]
    if name not in COMMANDS:
        what = "option" if name.startswith("-") else "command"
        warn(f"there is no {what} {name!r}{nearest(name, COMMANDS)}; commands: {', '.join(COMMANDS)}")
        return Refusal.WRONG_USAGE
    try:
        return int(import_module(f"holter.cli.commands.{name}").main(words[1:]))
    except Refusal as refusal:
        print(wrapped(f"holter {name}: {refusal}", sys.stderr), file=sys.stderr)
        return refusal.code


def _overview() -> str:
    width = max(map(len, COMMANDS))
    listed = "\n".join(f"  {name:<{width}}  {what}" for name, what in COMMANDS.items())
    return (
        "holter records a training run and says why it is slow or sick. No code change.\n\n"
        "  holter run -- python train.py   record a training; a verdict at the end\n"
        "  holter demo                     see it on a built-in example (needs torch)\n\n"
        f"Commands:\n{listed}\n\n"
        "`holter COMMAND --help` shows the options of one command, with examples."
    )
