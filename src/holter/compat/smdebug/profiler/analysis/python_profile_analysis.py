"""`cProfileAnalysis` and `PyinstrumentAnalysis`: what Python code did in which part of the training."""

from __future__ import annotations

import contextlib
import logging
import math
from collections import defaultdict
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from holter.compat.smdebug.profiler.analysis.python_stats_reader import (
    ORDER,
    StepPythonProfileStats,
    of_folder,
    of_job,
)
from holter.compat.smdebug.profiler.analysis.utils.python_profile_analysis_utils import (
    PyinstrumentStepStats,
    added,
    cProfileStats,
)
from holter.compat.smdebug.profiler.python_profile_utils import PythonProfileModes, StepPhase
from holter.frame import optional
from holter.store.job import JobNotFound, at

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_log = logging.getLogger(__name__)
_Key = TypeVar("_Key")
_COLUMNS = [field.name for field in fields(StepPythonProfileStats) if field.name not in ("timer", "load")]


class PythonProfileAnalysis:
    """What both analyses have in common: which segments there are, and which are asked for."""

    name = ""

    def __init__(self, local_profile_dir: str = "/tmp/python_stats", s3_path: str | None = None) -> None:  # noqa: S108 - smdebug's default
        """Open a folder that holds `<node>/<segment>/…`, or anything above it; or a job of holter's.

        Args:
            local_profile_dir: Where to read.
            s3_path: A URL to read instead; nothing is copied to `local_profile_dir`.

        Raises:
            AssertionError: The folder does not exist.
        """
        self.path = str(s3_path or local_profile_dir)
        remote = "://" in self.path
        assert remote or Path(self.path).is_dir(), f"folder {self.path} does not exist"  # noqa: S101
        self._segments: list[StepPythonProfileStats] | None = None

    def _all(self, refresh: bool = True) -> list[StepPythonProfileStats]:
        if refresh or self._segments is None:
            found = of_folder(self.path)
            with contextlib.suppress(JobNotFound):
                found = found or of_job(at(self.path))
            self._segments = [one for one in found if one.profiler_name == self.name]
        return self._segments

    def list_profile_stats(self, refresh_stats: bool = True) -> Any:
        """Return a frame of all segments, one row for each file; empty without segments."""
        found = self._all(refresh_stats)
        if not found:
            _log.warning("no segment profiled by %s below %s", self.name, self.path)
        rows = [[getattr(one, column) for column in _COLUMNS] for one in found]
        return optional("pandas").DataFrame(rows, columns=_COLUMNS)

    def list_available_node_ids(self, refresh_stats: bool = True) -> list[str]:
        """Return who was profiled."""
        return sorted({one.node_id for one in self._all(refresh_stats)})

    def fetch_profile_stats_by_step(
        self,
        start_step: int,
        end_step: int | None = None,
        mode: PythonProfileModes = PythonProfileModes.TRAIN,
        start_phase: StepPhase = StepPhase.STEP_START,
        end_phase: StepPhase = StepPhase.STEP_END,
        node_id: str = "any",
        refresh_stats: bool = True,
    ) -> Any:
        """Return what ran from a place in one step to a place in another, in one mode.

        Args:
            start_step: First step.
            end_step: Last step; the first one when not given.
            mode: In which segments both begin and end.
            start_phase: Where in the first step.
            end_phase: Where in the last step.
            node_id: Who; that of the first segment by default.
            refresh_stats: Look for new segments first.
        """
        low = (start_step, ORDER[start_phase])
        high = (start_step if end_step is None else end_step, ORDER[end_phase])
        return self._fetch(
            lambda one: (
                (one.start_mode, one.end_mode) == (mode, mode) and low <= one.starts and one.ends <= high
            ),
            node_id,
            refresh_stats,
        )

    def fetch_profile_stats_by_time(
        self,
        start_time_since_epoch_in_secs: float,
        end_time_since_epoch_in_secs: float,
        node_id: str = "any",
        refresh_stats: bool = True,
    ) -> Any:
        """Return segments that begin or end within a stretch of time."""
        low, high = start_time_since_epoch_in_secs * 1e6, end_time_since_epoch_in_secs * 1e6

        def inside(one: StepPythonProfileStats) -> bool:
            times = (one.start_time_since_epoch_in_micros, one.end_time_since_epoch_in_micros)
            return any(low <= time <= high for time in times)

        return self._fetch(inside, node_id, refresh_stats)

    def fetch_profile_stats_between_modes(
        self,
        start_mode: PythonProfileModes,
        end_mode: PythonProfileModes,
        node_id: str = "any",
        refresh_stats: bool = True,
    ) -> Any:
        """Return segments that lead from one mode to another."""
        return self._fetch(
            lambda one: (one.start_mode, one.end_mode) == (start_mode, end_mode), node_id, refresh_stats
        )

    def fetch_pre_step_zero_profile_stats(self, node_id: str = "any", refresh_stats: bool = True) -> Any:
        """Return what ran before the first step."""
        return self._fetch(lambda one: one.start_phase is StepPhase.START, node_id, refresh_stats)

    def fetch_post_hook_close_profile_stats(self, node_id: str = "any", refresh_stats: bool = True) -> Any:
        """Return what ran after the training, to the end of the script."""
        return self._fetch(lambda one: one.end_phase is StepPhase.END, node_id, refresh_stats)

    def _chosen(
        self, wanted: Callable[[StepPythonProfileStats], bool], node_id: str, refresh: bool
    ) -> list[StepPythonProfileStats]:
        found = self._all(refresh)
        node = found[0].node_id if node_id == "any" and found else node_id
        return [one for one in found if one.node_id == node and wanted(one)]

    def _fetch(self, wanted: Callable[[StepPythonProfileStats], bool], node_id: str, refresh: bool) -> Any:
        found = self._chosen(wanted, node_id, refresh)
        if not found:
            _log.warning("no segment of %s that was asked for below %s", self.name, self.path)
            return None
        return self._read(found)

    def _read(self, segments: Sequence[StepPythonProfileStats]) -> Any:
        raise NotImplementedError


class cProfileAnalysis(PythonProfileAnalysis):  # noqa: N801 - smdebug's name
    """What cProfile counted; what is fetched is a `cProfileStats`, or None."""

    name = "cprofile"

    def _read(self, segments: Sequence[StepPythonProfileStats]) -> cProfileStats:
        return added(segments)

    def fetch_profile_stats_by_training_phase(
        self, node_id: str = "any", refresh_stats: bool = True
    ) -> dict[tuple[PythonProfileModes, PythonProfileModes], cProfileStats]:
        """Return statistics by the modes that segments lead from and to, of pairs that there are."""
        return self._added(lambda one: (one.start_mode, one.end_mode), node_id, refresh_stats)

    def fetch_profile_stats_by_job_phase(
        self, node_id: str = "any", refresh_stats: bool = True
    ) -> dict[str, cProfileStats]:
        """Return statistics of `initialization`, `training_loop` and `finalization`, of those there are."""
        return self._added(_job_phase, node_id, refresh_stats)

    def _added(
        self, key: Callable[[StepPythonProfileStats], _Key], node_id: str, refresh: bool
    ) -> dict[_Key, cProfileStats]:
        groups: defaultdict[_Key, list[StepPythonProfileStats]] = defaultdict(list)
        for one in self._chosen(lambda _: True, node_id, refresh):
            groups[key(one)].append(one)
        return {name: added(mine) for name, mine in groups.items()}


def _job_phase(one: StepPythonProfileStats) -> str:
    if one.start_mode is PythonProfileModes.PRE_STEP_ZERO:
        return "initialization"
    if one.end_mode is PythonProfileModes.POST_HOOK_CLOSE or one.end_step == math.inf:
        return "finalization"
    return "training_loop"


class PyinstrumentAnalysis(PythonProfileAnalysis):
    """What pyinstrument saw; what is fetched is a list of `PyinstrumentStepStats`, one a segment, or None."""

    name = "pyinstrument"

    def _read(self, segments: Sequence[StepPythonProfileStats]) -> list[PyinstrumentStepStats]:
        pages = {
            one.stats_path.removesuffix(".html"): one for one in segments if one.stats_path.endswith(".html")
        }
        trees = [one for one in segments if not one.stats_path.endswith(".html")]
        return [
            PyinstrumentStepStats(
                page.load() if (page := pages.get(one.stats_path.removesuffix(".json"))) else None, one.load()
            )
            for one in trees
        ]
