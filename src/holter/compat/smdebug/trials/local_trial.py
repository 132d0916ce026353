"""smdebug's `LocalTrial`: a job of holter's, or a folder that smdebug writes or wrote."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
import weakref
from pathlib import Path
from typing import Any

from holter.compat.smdebug.exceptions import MissingCollectionFiles, TrialNotFound
from holter.compat.smdebug.trials.trial import Trial
from holter.importers.sagemaker.smdebug_folder import is_smdebug
from holter.importers.sagemaker.smdebug_tensors import MissingCollectionsError, TensorFolder
from holter.store import job
from holter.tensors import Source

_SAID = 20
"""So many damaged files of one look are named one by one."""


class LocalTrial(Trial):
    """The tensors of a job, or of a folder that smdebug writes: that is followed as it grows."""

    def __init__(
        self,
        name: str,
        dirname: str,
        range_steps: tuple[int | None, int | None] | None = None,
        **_ignored: Any,
    ) -> None:
        """Open it; arguments and errors are those of `create_trial`."""
        if range_steps is not None:
            first, after = range_steps
            given = [step for step in (first, after) if step is not None]
            if any(type(step) is not int or step < 0 for step in given) or given != sorted(set(given)):
                raise AssertionError(f"range_steps is {range_steps}; expected (begin, end), 0 <= begin < end")
        path = os.path.expanduser(dirname)
        self._tensors_of: TensorFolder | None = None
        if not is_smdebug(Path(path)):
            try:
                folder = job.at(path)
            except LookupError as missing:
                raise TrialNotFound(str(missing.args[0])) from missing
            super().__init__(folder, name, range_steps)
            return
        store = tempfile.mkdtemp(prefix="holter-smdebug-")
        # The copy is removed with the trial.
        weakref.finalize(self, shutil.rmtree, store, ignore_errors=True)
        folder = job.create(store, "copied", command=["smdebug", path], interval_ms=500, rules=[], now_ns=0)
        self._tensors_of = TensorFolder(Path(path), folder)
        super().__init__(folder, name, range_steps)
        self.path = path

    @property
    def last_index_token(self) -> str | None:
        """The last index file of the last complete step, in a folder that smdebug wrote."""
        if self._tensors_of is None:
            return None
        self.source.refresh()
        last = self._tensors_of.indexes.get(self.last_complete_step)
        return os.path.join(self.path, max(last)) if last else None

    def _opened(
        self, folder: job.JobFolder, steps: tuple[int | None, int | None] | None, window: int
    ) -> Source:
        if self._tensors_of is None:
            return super()._opened(folder, steps, window)
        return _Followed(self._tensors_of, steps, window)


class _Followed(Source):
    """The tensors of a folder that smdebug writes: each look takes in first what came there."""

    def __init__(
        self, tensors: TensorFolder, steps: tuple[int | None, int | None] | None, window: int
    ) -> None:
        super().__init__(tensors.folder, steps=steps, window=window)
        self._tensors = tensors

    def refresh(self) -> None:
        """Take in what came since the last look, unless the job has ended or the reader is frozen."""
        self._copy()
        super().refresh()

    def refresh_names(self) -> None:
        """Take in the names that are new."""
        self._copy()
        super().refresh_names()

    def _copy(self) -> None:
        if self._tensors.ended or not self.refreshing:
            return
        try:
            faults = self._tensors.update()
        except MissingCollectionsError as missing:
            raise MissingCollectionFiles(str(missing)) from missing
        for fault in faults[:_SAID]:
            warnings.warn(f"left out {fault}", stacklevel=5)
        if self._tensors.ended:
            self.folder.update(end=self._tensors.end_ns or 1, status="Completed")
