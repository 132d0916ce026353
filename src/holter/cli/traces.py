"""Diagnose traces that holter did not record: imported into a store that is gone afterwards."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from holter.cli.options import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.store.trial import Trial
    from holter.views.document.types import Description, TraceDescription
    from holter.views.document.types.job import SkippedFile


def is_trace(words: Sequence[str]) -> bool:
    """Tell whether these name files and folders that are no jobs: then they are traces, or nothing.

    Raises:
        Refusal: A folder that holds jobs, with code 65; of several paths one that is not there, with code 4.
    """
    if len(words) == 1:
        path = words[0]
        if os.path.exists(path) and not os.path.isdir(path):
            return True  # a pipe too, which the import refuses in words
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


def described(words: Sequence[str], *, in_detail: bool = False) -> Description | TraceDescription:
    """Import traces and describe them as one job; raises `Refusal` with code 65, saying why."""
    from holter.importers import UnreadableError, import_job
    from holter.store.trial import Trial

    with tempfile.TemporaryDirectory(prefix="holter-diagnose-") as store:
        try:
            paths = [Path(word) for word in words]
            folder, report = import_job(
                paths, store, "trace", now_ns=time.time_ns(), kept=False, on_progress=_progress
            )
        except (UnreadableError, OSError) as error:
            told = str(error)
            where = "" if any(word in told for word in words) else f"{', '.join(words)}: "
            raise Refusal(where + told, Refusal.UNREADABLE) from None
        finally:
            _progress("", 0, 0)
        folder.update(name=Path(words[0]).name + (f" and {len(words) - 1} more" if len(words) > 1 else ""))
        skipped: list[SkippedFile] = [
            {"file": file, "why": f"{why} ({times} times)" if times > 1 else why}
            for file, reasons in report.skipped.items()
            for why, times in reasons.items()
        ]
        return judged(Trial(folder), skipped, in_detail=in_detail)


def judged(
    trial: Trial, skipped: Sequence[SkippedFile] = (), *, in_detail: bool = False
) -> Description | TraceDescription:
    """Describe a job by its kernels and operators if it was imported and has some, else as a recorded one."""
    from holter.views.document.description import describe
    from holter.views.document.trace_description import describe_trace, is_trace

    if not is_trace(trial):
        told = describe(trial, in_detail=in_detail)
        return {**told, "skipped": [*skipped, *told["skipped"]]}
    return describe_trace(trial, skipped=skipped, in_detail=in_detail)


def _progress(file: str, done: int, size: int) -> None:
    """Show on a terminal how far the import is; an empty name clears the line."""
    if sys.stderr.isatty():
        text = f"reading {Path(file).name} {100 * done // max(size, 1)} %" if file else ""
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
