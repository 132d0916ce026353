"""Sends a job to MLflow: to the run that the training has open, by the client of MLflow."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from holter.report.sinks import PREFIX, SinkError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holter.report.sinks import SentJob, StepNumbers, TrackerTarget, TrackerVerdict

ABOUT = "the run that the training opens, at MLFLOW_TRACKING_URI or the default store"
NEEDS = "mlflow"
OPTIONS = ("run", "uri")
LIVE = True

_AT_ONCE = 1000
"""Most metrics that MLflow takes in one batch."""
_MOST_TAG = 5000


def open_run(target: TrackerTarget, job: SentJob) -> MlflowRun:
    """Return a run: that of the option `run` or MLFLOW_RUN_ID, else the newest of the job, else a new one."""
    with _refused():
        from mlflow import MlflowClient
        from mlflow.entities import ViewType

        client: Any = MlflowClient(tracking_uri=target.options.get("uri"))
        run = target.options.get("run") or job.environment.get("MLFLOW_RUN_ID")
        if run:
            client.get_run(run)
            return MlflowRun(client, run)
        experiments = [one.experiment_id for one in client.search_experiments(view_type=ViewType.ACTIVE_ONLY)]
        found = client.search_runs(
            experiments,
            filter_string=f"attributes.start_time >= {job.began_ns // 1_000_000}",
            order_by=["attributes.start_time DESC"],
            max_results=1,
        )
        if found:
            return MlflowRun(client, found[0].info.run_id)
        made = client.create_run(_experiment(client, job), run_name=job.name)
        return MlflowRun(client, made.info.run_id, own=True)


class MlflowRun:
    """One run of a tracking server or a store of files."""

    def __init__(self, client: Any, run: str, *, own: bool = False) -> None:
        self.where = f"run {run} at {client.tracking_uri}"
        self.resume: Mapping[str, str] = {"run": run}
        self._client, self._run, self._own = client, run, own

    def log(self, points: Sequence[StepNumbers]) -> None:
        """Add numbers of steps."""
        with _refused():
            from mlflow.entities import Metric

            metrics: list[Any] = [
                Metric(PREFIX + name, value, point.time_ns // 1_000_000, point.step)
                for point in points
                for name, value in point.values.items()
            ]
            for at in range(0, len(metrics), _AT_ONCE):
                self._client.log_batch(self._run, metrics=metrics[at : at + _AT_ONCE])

    def judge(self, found: TrackerVerdict) -> None:
        """Add the verdict as tags and as a file, and the key numbers."""
        with _refused():
            tags = {"verdict": found.sentence[:_MOST_TAG], "suspect": found.suspect, "link": found.link}
            for name, text in tags.items():
                self._client.set_tag(self._run, f"holter.{name}", text)
            for name, value in found.numbers.items():
                self._client.log_metric(self._run, f"{PREFIX}summary/{name}", value)
            self._client.log_text(self._run, found.text, "holter/verdict.md")

    def close(self) -> None:
        """End a run that was made for this job; the training's own run is left as it is."""
        if self._own:
            with _refused():
                self._client.set_terminated(self._run)


def _experiment(client: Any, job: SentJob) -> str:
    """Return the experiment for a new run: that of MLflow's variables, else the default one."""
    if known := job.environment.get("MLFLOW_EXPERIMENT_ID"):
        return known
    name = job.environment.get("MLFLOW_EXPERIMENT_NAME")
    if not name:
        return "0"
    found = client.get_experiment_by_name(name)
    return str(found.experiment_id if found else client.create_experiment(name))


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    """Turn an error of MLflow into one sentence."""
    try:
        yield
    except Exception as error:
        raise SinkError(f"MLflow: {str(error).partition(chr(10))[0] or type(error).__name__}") from None
