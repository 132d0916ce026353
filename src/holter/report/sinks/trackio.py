"""Sends a job to Trackio's local database: to the run that the training logs to."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holter.report.sinks import PREFIX, SinkError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holter.report.sinks import SentJob, StepNumbers, TrackerTarget, TrackerVerdict

ABOUT = "the newest run of the local database, in TRACKIO_DIR"
NEEDS = "trackio"
OPTIONS = ("project", "run")
LIVE = True

_DEFAULT = "holter"
"""The project of a job whose training logs nothing to Trackio."""


def open_run(target: TrackerTarget, job: SentJob) -> TrackioRun:
    """Return a run: that of the options, else the newest that was made during the job, else a new one."""
    with _refused():
        project, run = target.options.get("project"), target.options.get("run")
        found = _newest(project, job.began_ns if run is None else 0, run)
        if found is not None:
            return TrackioRun(*found)
        return TrackioRun(project or _DEFAULT, run or job.name, None)


class TrackioRun:
    """One run of a project."""

    def __init__(self, project: str, run: str, run_id: str | None) -> None:
        self.where = f"run {run} of project {project}; trackio show --project {project}"
        self.resume: Mapping[str, str] = {"project": project, "run": run_id or run}
        self._project, self._run, self._id = project, run, run_id
        self._last = 0

    def log(self, points: Sequence[StepNumbers]) -> None:
        """Add numbers of steps."""
        self._add(
            [{PREFIX + name: value for name, value in point.values.items()} for point in points],
            [point.step for point in points],
            [point.time_ns for point in points],
        )

    def judge(self, found: TrackerVerdict) -> None:
        """Add the verdict as Markdown, and the key numbers."""
        with _refused():
            from trackio.markdown import Markdown

            text = Markdown(found.text)._to_dict()
        numbers = {f"{PREFIX}summary/{name}": value for name, value in found.numbers.items()}
        told = {f"{PREFIX}verdict": text, f"{PREFIX}suspect": found.suspect, f"{PREFIX}link": found.link}
        now = round(datetime.now(UTC).timestamp() * 1e9)
        self._add([{**numbers, **told}], [self._last], [now])

    def close(self) -> None:
        """Do nothing: each call writes to the database."""

    def _add(self, rows: list[dict[str, Any]], steps: list[int], times_ns: list[int]) -> None:
        with _refused():
            self._last = max(self._last, *steps)
            times = [datetime.fromtimestamp(one / 1e9, UTC).isoformat() for one in times_ns]
            _storage().bulk_log(
                self._project, self._run, rows, steps=steps, timestamps=times, run_id=self._id
            )


def _storage() -> Any:
    # `trackio.init` would start a thread and a server; a second writer of a run is what this class is for.
    from trackio.sqlite_storage import SQLiteStorage

    return SQLiteStorage


def _newest(project: str | None, since_ns: int, run: str | None) -> tuple[str, str, str | None] | None:
    """Return project, name and id of the newest run that was made since then, and has this name or id."""
    since = datetime.fromtimestamp(since_ns / 1e9, UTC).isoformat()
    found: list[tuple[str, str, str, str | None]] = []
    for name in [project] if project else _storage().get_projects():
        for record in _storage().get_run_records(name):
            made = str(record.get("created_at") or "")
            if made >= since and run in (None, record["name"], record.get("id")):
                found.append((made, name, str(record["name"]), record.get("id")))
    return max(found)[1:] if found else None


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    """Turn an error of Trackio into one sentence."""
    try:
        yield
    except Exception as error:
        raise SinkError(f"Trackio: {str(error).partition(chr(10))[0] or type(error).__name__}") from None
