"""smdebug's `create_trial`: open a job of holter's, or a folder that smdebug itself wrote."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
import weakref
from pathlib import Path
from typing import Any

from holter.compat.smdebug.exceptions import (
    MissingCollectionFiles,
    SMDebugNotImplementedError,
    TrialNotFound,
)
from holter.compat.smdebug.trials import Trial
from holter.importers.smdebug_tensors import MissingCollectionsError, import_smdebug, is_smdebug
from holter.store.job import at

_SAID = 20
"""So many damaged files are named one by one."""


def create_trial(
    path: str,
    name: str | None = None,
    profiler: bool = False,
    output_dir: str | None = None,
    *,
    range_steps: tuple[int | None, int | None] | None = None,
    **_ignored: Any,
) -> Trial:
    """Open a job to read its tensors.

    Args:
        path: The job's folder or URL; or a folder that smdebug wrote, read once, as it is now.
        name: What to call it; the last part of the path by default.
        profiler: Only False: what profilers recorded is in `holter.open(path)`.
        output_dir: Without meaning here.
        range_steps: First step to read and one after the last, either may be None.
        _ignored: `check`, `index_mode`, `cache` and `parallel` of smdebug, which mean nothing here.

    Raises:
        TrialNotFound: There is no job. (smdebug waits for one, without end.)
        MissingCollectionFiles: smdebug's job has ended, and not all its workers wrote their collections.
    """
    if profiler:
        raise SMDebugNotImplementedError(
            "profiler=True is not there; use holter.open(path).spans and .samples"
        )
    if range_steps is not None:
        first, after = range_steps
        given = [step for step in (first, after) if step is not None]
        if any(type(step) is not int or step < 0 for step in given) or given != sorted(set(given)):
            raise AssertionError(f"range_steps is {range_steps}; expected (begin, end), 0 <= begin < end")
    url = os.path.expanduser(str(path).strip())
    if is_smdebug(Path(url)):
        return _imported(Path(url), name or os.path.basename(url.rstrip("/")), range_steps)
    try:
        folder = at(url)
    except LookupError as missing:
        raise TrialNotFound(str(missing.args[0])) from missing
    return Trial(folder, name=name, range_steps=range_steps)


def _imported(path: Path, name: str, range_steps: tuple[int | None, int | None] | None) -> Trial:
    store = tempfile.mkdtemp(prefix="holter-smdebug-")
    try:
        folder, faults = import_smdebug(path, store, "imported")
    except MissingCollectionsError as missing:
        shutil.rmtree(store, ignore_errors=True)
        raise MissingCollectionFiles(str(missing)) from missing
    for fault in faults[:_SAID]:
        warnings.warn(f"left out {fault}", stacklevel=3)
    trial = Trial(folder, name=name, range_steps=range_steps)
    trial.path = str(path)
    # The copy is removed with the trial.
    weakref.finalize(trial, shutil.rmtree, store, ignore_errors=True)
    return trial
