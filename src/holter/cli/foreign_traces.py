"""Describe traces of other tools, by way of a temporary store."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from holter.cli.options import Refusal
from holter.cli.output import progress_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.store.trial import Trial
    from holter.views.document.types import Description, TraceDescription
    from holter.views.document.types.job import SkippedFile


def is_trace(words: Sequence[str]) -> bool:
    """Tell whether these arguments are traces: existing files, or folders that are not jobs.

    Raises:
        Refusal: A folder is a store (code 65); one of several paths does not exist (code 4).
    """
    if len(words) == 1:
        path = words[0]
        if os.path.exists(path) and not os.path.isdir(path):
            return True  # a pipe too, which the import refuses
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
                f"no such file or folder: {path}; several arguments must be traces", Refusal.NOT_FOUND
            )
        if os.path.isfile(os.path.join(path, "job.json")):
            raise Refusal(f"{path} is a job; give one job only: holter diagnose {path}")
    return True


def describe_paths(words: Sequence[str], *, in_detail: bool = False) -> Description | TraceDescription:
    """Import traces and describe them as one job; raises `Refusal` with code 65, saying why."""
    from holter.importers import UnreadableError, import_job
    from holter.store.trial import Trial

    paths = [Path(word) for word in words]
    with tempfile.TemporaryDirectory(prefix="holter-diagnose-") as store:
        try:
            with progress_line() as progress:
                folder, report = import_job(
                    paths, store, "trace", now_ns=time.time_ns(), kept=False, on_progress=progress
                )
        except (UnreadableError, OSError) as error:
            text = str(error)
            where = "" if any(word in text for word in words) else f"{', '.join(words)}: "
            raise Refusal(where + text, Refusal.UNREADABLE) from None
        folder.update(name=Path(words[0]).name + (f" and {len(words) - 1} more" if len(words) > 1 else ""))
        skipped: list[SkippedFile] = [
            {"file": file, "why": f"{why} ({times} times)" if times > 1 else why}
            for file, reasons in report.skipped.items()
            for why, times in reasons.items()
        ]
        return describe_job(Trial(folder), skipped, in_detail=in_detail)


def describe_job(
    trial: Trial, skipped: Sequence[SkippedFile] = (), *, in_detail: bool = False
) -> Description | TraceDescription:
    """Describe a job from its kernels and operators if it is an imported trace, else as a recorded job."""
    from holter.views.document.description import describe
    from holter.views.document.trace_description import describe_trace, is_trace

    if not is_trace(trial):
        description = describe(trial, in_detail=in_detail)
        return {**description, "skipped": [*skipped, *description["skipped"]]}
    return describe_trace(trial, skipped=skipped, in_detail=in_detail)
