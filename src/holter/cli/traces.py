"""Diagnose traces that holter did not record: imported into a store that is gone afterwards."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holter.cli.options import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence


def is_trace(words: Sequence[str]) -> bool:
    """Tell whether these name files and folders that are no jobs: then they are traces, or nothing.

    Raises:
        Refusal: A folder that holds jobs, with code 65; of several paths one that is not there, with code 4.
    """
    if len(words) == 1:
        path = words[0]
        if os.path.isfile(path):
            return True
        if "://" in path or not os.path.isdir(path) or os.path.isfile(os.path.join(path, "job.json")):
            return False
        if any(os.path.isfile(os.path.join(path, name, "job.json")) for name in os.listdir(path)):
            if "/" not in path:
                return False
            text = f"{path} is a store, not a job; list its jobs: holter jobs --store {path}"
            raise Refusal(text, Refusal.UNREADABLE)
        return True
    for path in words:
        if not os.path.exists(path):
            raise Refusal(
                f"{path} is not there; several arguments are files and folders of traces", Refusal.NOT_FOUND
            )
        if os.path.isfile(os.path.join(path, "job.json")):
            raise Refusal(f"{path} is a job; jobs are diagnosed one by one: holter diagnose {path}")
    return True


def described(words: Sequence[str]) -> dict[str, Any]:
    """Import traces and describe them as one job of several ranks; raises `Refusal` with code 65, saying why."""
    from holter.importers import UnreadableError, import_paths
    from holter.store.job import create
    from holter.store.trial import Trial
    from holter.views.description import describe
    from holter.views.trace_description import describe_trace, tables

    with tempfile.TemporaryDirectory(prefix="holter-diagnose-") as store:
        folder = create(store, "trace", command=[], interval_ms=500, rules=[], now_ns=time.time_ns())
        try:
            report = import_paths([Path(word) for word in words], folder, on_progress=_progress)
        except UnreadableError as error:
            told = str(error)
            where = "" if any(word in told for word in words) else f"{', '.join(words)}: "
            raise Refusal(where + told, Refusal.UNREADABLE) from None
        except OSError as error:
            raise Refusal(f"cannot be imported: {error}", Refusal.UNREADABLE) from None
        finally:
            _progress("", 0, 0)
        folder.update(status="Completed", start=report.start_ns, end=report.end_ns)
        trial = Trial(folder)
        name = Path(words[0]).name + (f" and {len(words) - 1} more" if len(words) > 1 else "")
        if any(report.rows[table] for table in ("kernels", "memory_operations", "operators", "launches")):
            return describe_trace(name, tables(trial), report)
        # What has no events but samples and spans of its own is like a recorded job.
        found = describe(trial)
        return {**found, "job": {**found["job"], "name": name}}


def _progress(file: str, done: int, size: int) -> None:
    """Show on a terminal how far the import is; an empty name clears the line."""
    if sys.stderr.isatty():
        text = f"reading {Path(file).name} {100 * done // max(size, 1)} %" if file else ""
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
