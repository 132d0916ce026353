"""Where smdebug's readers read: a `profiler-output` folder of SageMaker's, or a job of holter's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from holter.compat.smdebug.exceptions import TrialNotFound
from holter.compat.smdebug.profiler.recorded import Recorded
from holter.importers.sagemaker.profiler_output import ProfilerOutput, is_profiler_output
from holter.store.job import JobNotFound, at
from holter.store.trial import Trial

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Collection, Iterator, Sequence

    from holter.schema.table import Table
    from holter.store.job import JobFolder


class Source(Protocol):
    """Readings and events by time, microseconds since the epoch; see `ProfilerOutput` for the columns."""

    ended: bool
    """Whether nothing more will come."""

    @property
    def skipped(self) -> Counter[str]:
        """What could not be read, counted by why."""

    def refresh(self) -> None:
        """Look for what came meanwhile."""

    def readings(self, start: int = 0, end: int | None = None) -> Table:
        """Return readings of the machine with start <= time <= end."""

    def events(self, start: int = 0, end: int | None = None, suffixes: Sequence[str] | None = None) -> Table:
        """Return events of the training that overlap [start, end]."""

    def readings_in_pieces(
        self, start: int = 0, end: int | None = None, names: Collection[str] = ()
    ) -> Iterator[Table]:
        """Yield readings, if asked for only of metrics with these names, in pieces that fit into memory."""

    def events_in_pieces(
        self, start: int = 0, end: int | None = None, suffixes: Sequence[str] | None = None
    ) -> Iterator[Table]:
        """Yield each event that overlaps [start, end] once, in pieces that fit into memory."""

    def available(self, events: bool) -> tuple[int, int]:
        """Return the first and the last time of events, or of readings; 0 without any."""

    def forget(self) -> None:
        """Let go of what is kept in memory."""


def is_recorded(folder: JobFolder) -> bool:
    """Tell whether a folder is a job: it has a manifest, or tables."""
    if "start" in folder.manifest():
        return True
    return any(Trial(folder).rows(table) for table in ("samples", "spans", "operators"))


def source(url: str) -> Source:
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
