"""Asks every command about a job, in a process of its own that has loaded holter before."""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import holter.cli.card
import holter.cli.commands.describe
import holter.cli.run.finish
import holter.report.profiler_report
import holter.views.document.description  # noqa: F401 - loaded once, before processes are forked
from holter.cli import main
from holter.store.job import find
from holter.store.trial import Trial

LIMIT_S = 240.0
"""Far more than they take on a machine that does nothing else."""


@dataclass
class Answers:
    """What the commands said."""

    codes: dict[str, int] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    described: dict[str, Any] = field(default_factory=dict)
    stored: int | None = None
    """Steps in the store; None if it cannot be read."""
    slowest_s: float = 0.0


def asked(store: Path, job: str, temporary: Path) -> Answers | str:
    """Return what the commands said; a sentence if they crashed or hung."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    ours, theirs = context.Pipe()
    process = context.Process(target=_ask, args=(theirs, str(store), job, str(temporary)))
    process.start()
    theirs.close()
    try:
        if not ours.poll(LIMIT_S):
            process.kill()
            return f"the commands hang after {LIMIT_S:.0f} s"
        answers: Answers = ours.recv()
        return answers
    except EOFError:
        process.join()
        return f"the commands crash with exit code {process.exitcode}"
    finally:
        process.join()
        ours.close()


def _ask(answer: Connection, store: str, job: str, temporary: str) -> None:
    for name in [name for name in os.environ if name.startswith("HOLTER_")]:
        del os.environ[name]
    os.environ["TMPDIR"], tempfile.tempdir = temporary, None
    os.chdir(temporary)
    found = Answers()
    words = {
        "recover": ["recover", job],
        "jobs": ["jobs", "--json"],
        "describe": ["describe", job, "--json"],
        "diagnose": ["diagnose", job, "--json"],
        "report": ["report", job, "-o", "report.html"],
        "recover again": ["recover", job],
    }
    for name, one in words.items():
        began = time.monotonic()
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            try:
                found.codes[name] = main([*one, "--store", store])
            except SystemExit as end:
                found.codes[name] = int(end.code or 0)
            except BaseException:
                found.codes[name] = -1
                traceback.print_exc()
        found.said[name] = err.getvalue() or ("" if "--json" in one else out.getvalue())
        found.slowest_s = max(found.slowest_s, time.monotonic() - began)
        if name == "describe" and found.codes[name] == 0:
            found.described = json.loads(out.getvalue())
    with contextlib.suppress(OSError, LookupError, ValueError):
        spans = Trial(find(store, job)).table("spans")
        found.stored = int((spans["phase"] == "step").sum())
    answer.send(found)
