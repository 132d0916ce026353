"""Where smdebug's readers read: a `profiler-output` folder of SageMaker's, or a job of holter's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.compat.smdebug.exceptions import TrialNotFound
from holter.compat.smdebug.profiler.recorded import Recorded
from holter.importers.sagemaker.profiler_output import ProfilerOutput, is_profiler_output
from holter.store.job import JobNotFound, at
from holter.store.trial import Trial

if TYPE_CHECKING:
    from holter.importers.sagemaker.profiler_source import ProfilerSource
    from holter.store.job import JobFolder


def is_recorded(folder: JobFolder) -> bool:
    """Tell whether a folder is a job: it has a manifest, or tables."""
    if "start" in folder.manifest():
        return True
    return any(Trial(folder).rows(table) for table in ("samples", "spans", "operators"))


def source(url: str) -> ProfilerSource:
    """Open what is at a path or URL.

    Raises:
        TrialNotFound: It is neither; the text says what was looked for.
    """
    url = str(url).strip()
    folder, why = None, ""
    try:
        folder = at(url)
    except JobNotFound as missing:
        why = f" ({missing.args[0]})"
    if folder is not None and "start" in folder.manifest():
        return Recorded(folder)
    if is_profiler_output(url):
        return ProfilerOutput(url)
    if folder is not None and is_recorded(folder):
        return Recorded(folder)
    raise TrialNotFound(
        f"{url} is no job of holter's{why}, and holds no file of system/ or framework/ as SageMaker's "
        "profiler-output does"
    )
