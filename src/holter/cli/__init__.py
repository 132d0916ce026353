"""The command `holter`: dispatch to a command, print a refusal in one line, return the exit code."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from holter.cli import streams, tool_environment

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "run": "record a training: holter run -- python train.py",
    "attach": "record a training that runs already: holter attach PID",
    "demo": "record and diagnose a built-in slow training",
    "jobs": "list the jobs of a store",
    "fleet": "sum up all jobs of stores: hours, idle time, cost, problems",
    "top": "show a job in the terminal while it runs",
    "describe": "show everything that is known about a job",
    "diagnose": "say why a job is slow or sick, with the evidence",
    "rules": "list, show, run or write rules that judge a job",
    "profile": "profile a few steps of a running job",
    "compare": "compare jobs: what changed, and what that saves",
    "check": "fail continuous integration if steps got slower",
    "configure": "change how a running job is sampled",
    "report": "write everything about a job into one HTML file",
    "ui": "show the jobs as live pages in the browser",
    "import": "make a job of traces of torch.profiler, Nsight Systems or XPlane",
    "export": "write a job as files for Perfetto, TensorBoard and others",
    "stop": "stop a running job gracefully",
    "recover": "store the records of a killed agent and close its job",
    "prune": "delete old jobs (asks first)",
    "doctor": "list what holter can measure on this machine",
    "completion": "complete commands, options and jobs in a shell",
}
"""Every command and what it does; `cli/commands` has a module of the same name."""

INTERRUPTED = 130
BROKEN_PIPE = 141
NOT_WRITTEN = 74
NEEDS_NEWER_PYTHON = 69


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; wrong arguments never raise."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        tool_environment.leave(os.environ)
    # A full disk or a closed terminal must not stop a training.
    streams.prepare(drops_output=words[:1] == ["run"])
    if sys.version_info < (3, 11):
        found = ".".join(map(str, sys.version_info[:2]))
        print(
            f"holter: this is Python {found}; the commands need 3.11 or newer. The training may run on 3.10: "
            "install holter into an environment of its own and start the training's python with it",
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
        return BROKEN_PIPE  # the reader of the output has ended
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
    from holter.cli.options import Refusal, nearest
    from holter.cli.output import warn

    name = words[0]
    if name not in COMMANDS:
        kind, known, valid = "command", [*COMMANDS], ""
        if name.startswith("-"):
            kind, known, valid = "option", ["--help", "--version"], "valid: --help, --version; "
        warn(f"unknown {kind} {name!r}{nearest(name, known)}; {valid}commands: {', '.join(COMMANDS)}")
        return Refusal.WRONG_USAGE
    command = import_module(f"holter.cli.commands.{name}")
    try:
        return int(command.main(words[1:]))
    except Refusal as refusal:
        warn(str(refusal), name)
        return int(getattr(command, "EXIT_CODES", {}).get(refusal.code, refusal.code))


def _overview() -> str:
    width = max(map(len, COMMANDS))
    listed = "\n".join(f"  {name:<{width}}  {what}" for name, what in COMMANDS.items())
    return (
        "holter records a training run and says why it is slow or sick. No code change.\n\n"
        "  holter run -- python train.py   record a training, get a verdict at the end\n"
        "  holter demo                     try it on a built-in training (needs torch)\n\n"
        f"Commands:\n{listed}\n\n"
        "`holter COMMAND --help` shows the options of a command, with examples."
    )
