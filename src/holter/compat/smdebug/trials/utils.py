"""smdebug's `create_trial`: open a job of holter's, or a folder that smdebug itself writes."""

from __future__ import annotations

import os
from typing import Any

from holter.compat.smdebug.exceptions import SMDebugNotImplementedError
from holter.compat.smdebug.trials.local_trial import LocalTrial
from holter.compat.smdebug.trials.s3_trial import S3Trial


def create_trial(
    path: str,
    name: str | None = None,
    profiler: bool = False,
    output_dir: str | None = None,
    *,
    range_steps: tuple[int | None, int | None] | None = None,
    **ignored: Any,
) -> LocalTrial:
    """Open a job to read its tensors.

    Args:
        path: The job's folder or URL; or a folder that smdebug wrote or still writes.
        name: What to call it; the last part of the path by default.
        profiler: Only False: what profilers recorded is in `holter.open(path)`.
        output_dir: Without meaning here.
        range_steps: First step to read and one after the last, either may be None.
        ignored: `check`, `index_mode`, `cache` and `parallel` of smdebug, which mean nothing here.

    Raises:
        TrialNotFound: There is no job. (smdebug waits for one, without end.)
        MissingCollectionFiles: smdebug's job has ended, and not all its workers wrote their collections.
    """
    if profiler:
        raise SMDebugNotImplementedError(
            "profiler=True is not there; use holter.open(path).spans and .samples"
        )
    url = str(path).strip()
    name = name or os.path.basename(url.rstrip("/"))
    if url.startswith("s3://"):
        bucket, _, prefix = url.removeprefix("s3://").partition("/")
        return S3Trial(name, bucket, prefix, range_steps, **ignored)
    return LocalTrial(name, url, range_steps, **ignored)
