"""`holter attach PID`: record a training that was started without holter, from outside."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from holter.cli import options, output
from holter.cli.naming import command_for, default_name, store_of
from holter.cli.options import Refusal, Refusing
from holter.cli.rule_selection import select

if TYPE_CHECKING:
    from holter.agent.drain.writer_thread import WriterThread
    from holter.agent.supervision.outside import AttachedProcess
    from holter.store.documents import Document
    from holter.store.job import JobFolder

ABOUT = """Record a training that runs already and was started without holter. The process is neither stopped
nor changed: its counters and its memory are read. Ctrl-C ends the recording, not the training; then a
verdict follows. Functions of Python programs need py-spy (pip install py-spy)."""
EXAMPLES = """  holter attach 4711
  holter attach $(pgrep -of train.py) --seconds 60
  holter attach 4711 --job resnet-live --json > verdict.json"""

_MOST_S = 30 * 86_400


def main(words: list[str]) -> int:
    """Run `holter attach`; returns 0 once the process has ended or the recording has."""
    parser = options.Parser("attach", ABOUT, EXAMPLES, "--store", "--json")
    parser.add_argument("pid", metavar="PID", help="the process of the training, or of its launcher")
    parser.add_argument(
        "--job", metavar="NAME", help="the job's name; default: the script's name and the time"
    )
    parser.add_argument(
        "--seconds",
        type=options.within(float, 1, _MOST_S, "seconds"),
        metavar="S",
        help="end the recording after so many seconds; default: with the process",
    )
    parser.add_argument(
        "--interval", metavar="TIME", help="time between two readings of the machine; default: 500ms"
    )
    given = parser.read(words)
    if not (given.pid.isdecimal() and 0 < int(given.pid) < 2**31):
        raise Refusal(f"{given.pid!r} is not the number of a process; `pgrep -af python` lists them")
    from holter.agent.machine.node import node_name
    from holter.agent.supervision.outside import CannotAttach, record, target
    from holter.schema.metrics import DEFAULT_INTERVAL_MS

    interval = options.interval_ms(given.interval) if given.interval else DEFAULT_INTERVAL_MS
    with Refusing(CannotAttach):
        process = target(int(given.pid))
    rules = select([], {}, defaults=True)
    folder = _create(process, given.job, given.store, interval, rules)
    line = _Line(process)
    with Refusing(OSError, before="the recording cannot begin: "):
        outcome = record(
            folder,
            process,
            node=node_name(),
            interval_ms=interval,
            seconds=given.seconds,
            begins=lambda: _tell(process, folder),
            show=line.show if sys.stderr.isatty() else None,
        )
    line.clear()
    from holter.cli.run.finish import finish

    try:
        finish(folder, outcome, node_name(), sys.stderr, rules=rules)
    except KeyboardInterrupt:
        output.warn(f"interrupted while judging; the record is complete: {command_for(folder)}")
    except OSError as error:
        raise Refusal(f"job {folder.url} cannot be judged: {error}", Refusal.UNREADABLE) from None
    if given.json:
        from holter.store.trial import Trial
        from holter.views.document.description import describe

        output.write_json(describe(Trial(folder)))
    return 0


def _tell(process: AttachedProcess, folder: JobFolder) -> None:
    """Say what is recorded from now on, and what cannot be."""
    from holter.agent.supervision.outside import lacking

    output.warn(f"recording process {process.pid} as job {folder.name} into {store_of(folder)}")
    output.warn("the training is not touched; Ctrl-C ends the recording, the training goes on")
    if why := lacking(process.pid):
        output.warn(f"no Python functions are recorded, only processes, machine and GPUs: {why}")
    sys.stderr.flush()


def _create(
    process: AttachedProcess, name: str | None, store: str | None, interval_ms: int, rules: list[Document]
) -> JobFolder:
    """Create the job; a default name gets a number when it is taken. Raises `Refusal`."""
    from holter.agent.machine.surroundings import surroundings
    from holter.agent.programs.spied import environment_of
    from holter.store.job import JobExists, create, store_url

    chosen = name or default_name(process.command, time.localtime())
    for attempt in range(2, 100):
        try:
            folder = create(
                store_url(store),
                chosen,
                command=process.command,
                interval_ms=interval_ms,
                rules=rules,
                now_ns=time.time_ns(),
            )
            environment = environment_of(process.pid)
            try:
                place = Path(os.readlink(f"/proc/{process.pid}/cwd"))
            except OSError:
                place = Path("/")
            folder.update(
                recorded=surroundings(process.command, place, environment),
                attached={"pid": process.pid},
            )
        except JobExists as error:
            if name is not None:
                raise Refusal(str(error)) from None
            chosen = f"{default_name(process.command, time.localtime())}-{attempt}"
        except (ValueError, OSError) as error:
            raise Refusal(str(error)) from None
        else:
            return folder
    raise Refusal(f"job {chosen!r} exists in store {store_url(store)}")


class _Line:
    """The line of the terminal that shows the recording."""

    def __init__(self, process: AttachedProcess) -> None:
        self._pid = process.pid
        self._began = time.monotonic()
        self._shown = 0.0

    def show(self, thread: WriterThread) -> None:
        """Draw the line anew: how long, cores, and the parts of the last stack samples."""
        import numpy as np

        from holter.analysis.host.training_parts import training_parts
        from holter.analysis.verdict.evidence import pct
        from holter.schema.table import Table
        from holter.views.wording import duration, words

        now = time.monotonic()
        watch = thread.program
        if watch is None or now - self._shown < 1.0:
            return
        self._shown = now
        alive = [one for one in watch.processes.known.values() if one.alive]
        told = [f"process {self._pid}", duration(now - self._began), f"{len(alive)} alive"]
        if (rows := getattr(watch.stacks, "newest", None)) is not None:
            named = {name: np.array(rows[name]) for name in ("stack", "samples")}
            parts = training_parts(Table(named))
            if parts is not None:
                shares = (f"{words(one.part)} {pct(one.pct)}" for one in parts.parts[:4] if one.pct >= 1)
                told.append(", ".join(shares))
        width = output.columns(sys.stderr)
        text = output.plain(output.clean("holter · " + " · ".join(told)), sys.stderr)[: width - 1]
        sys.stderr.write(f"\r\x1b[K\x1b[2m{text}\x1b[0m")
        sys.stderr.flush()

    def clear(self) -> None:
        """Remove the line."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
