"""`TrainingJob`: a job by name, with readers of what was profiled of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from holter.compat.smdebug.exceptions import NoMoreProfilerData, TrialNotFound
from holter.compat.smdebug.profiler.algorithm_metrics_reader import AlgorithmMetricsReader
from holter.compat.smdebug.profiler.sources import is_recorded, source
from holter.compat.smdebug.profiler.system_metrics_reader import SystemMetricsReader
from holter.importers.sagemaker.profiler_output import is_profiler_output
from holter.store.job import JobNotFound, at, find, store_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.store.documents import Document
    from holter.store.job import JobFolder

_Reader = TypeVar("_Reader", SystemMetricsReader, AlgorithmMetricsReader)
_POLL_S = 10.0


class TrainingJob:
    """A job of holter's, or a `profiler-output` folder. There is no service to ask: the files say all."""

    def __init__(
        self, training_job_name: str, region: str | None = None, *, store: str | None = None
    ) -> None:
        """Find a job by its name in the store, or by its path or URL.

        Args:
            training_job_name: Name, path or URL.
            region: Without meaning here.
            store: The store; that of `HOLTER_STORE`, or `./holter-jobs`, by default.

        Raises:
            TrialNotFound: There is no such job; the text names near ones.
        """
        self.folder: JobFolder | None = None
        self.profiler_s3_output_path = training_job_name
        try:
            named = "/" not in training_job_name
            self.folder = find(store_url(store), training_job_name) if named else at(training_job_name)
        except JobNotFound as missing:
            if not is_profiler_output(training_job_name):
                raise TrialNotFound(str(missing.args[0])) from missing
        if self.folder is not None and is_recorded(self.folder):
            self.profiler_s3_output_path = self.folder.url
        else:
            self.folder = None
            source(self.profiler_s3_output_path)  # says what was looked for when there is nothing
        self.name = training_job_name.rstrip("/").rpartition("/")[2]
        self.profiler_config = self._config()
        self.system_metrics_reader: SystemMetricsReader | None = None
        self.framework_metrics_reader: AlgorithmMetricsReader | None = None

    def _config(self) -> dict[str, object]:
        interval = self.describe_training_job().get("interval_ms")
        path = self.profiler_s3_output_path
        return {"ProfilingIntervalInMilliseconds": interval, "S3OutputPath": path}

    def get_config_and_profiler_s3_output_path(self) -> tuple[dict[str, object], str]:
        """Return, and print, how the job is profiled and where what was found is kept."""
        self.profiler_config = self._config()
        print(f"profiler config: {self.profiler_config}\nprofiler output: {self.profiler_s3_output_path}")
        return self.profiler_config, self.profiler_s3_output_path

    def describe_training_job(self) -> Document:
        """Return the job's manifest; nothing is known of a folder."""
        return {} if self.folder is None else self.folder.manifest()

    def wait_for_sys_profiling_data_to_be_available(self, timeout_s: float | None = None) -> None:
        """Wait until the machine was read.

        Args:
            timeout_s: How long at most; as long as the job runs by default.

        Raises:
            NoMoreProfilerData: The job has ended without.
            TimeoutError: It took too long.
        """
        self.system_metrics_reader = self._wait(SystemMetricsReader, "a reading of the machine", timeout_s)

    def wait_for_framework_profiling_data_to_be_available(self, timeout_s: float | None = None) -> None:
        """Wait until a step or another event was recorded; see above for what is raised."""
        reader = self._wait(AlgorithmMetricsReader, "an event of the training", timeout_s)
        print(f"events up to {reader.get_timestamp_of_latest_available_file()} µs")
        self.framework_metrics_reader = reader

    def _wait(self, reader: Callable[[str], _Reader], what: str, timeout_s: float | None) -> _Reader:
        found = reader(self.profiler_s3_output_path)
        since, said = time.monotonic(), ""
        while True:
            found.refresh_event_file_list()
            if found.get_timestamp_of_latest_available_file():
                return found
            ended = found.source.ended
            status = str(self.describe_training_job().get("status", "Completed" if ended else "InProgress"))
            if status != said:
                said = status
                print(f"{self.name} is {said}; without {what} yet")
            if ended:
                error = NoMoreProfilerData(0)
                why = "run it by `holter run`, for longer than a second"
                error.args = (f"{self.name} has ended without {what}: {why}",)
                raise error
            if timeout_s is not None and time.monotonic() - since >= timeout_s:
                raise TimeoutError(f"{self.name} is without {what} after {timeout_s:g} s")
            time.sleep(min(_POLL_S, timeout_s or _POLL_S))

    def get_systems_metrics_reader(self) -> SystemMetricsReader | None:
        """Return the reader of the machine; None before it was waited for."""
        return self.system_metrics_reader

    def get_framework_metrics_reader(self) -> AlgorithmMetricsReader | None:
        """Return the reader of events; None before it was waited for."""
        return self.framework_metrics_reader

    def get_sm_client(self) -> None:
        """Return None: there is no service."""
