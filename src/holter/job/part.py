"""A job or a part of it: its tables and their statistics, and results that notebooks show."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from holter.frame import Document, Rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holter.schema.table import Table
    from holter.store.job import JobFolder
    from holter.store.trial import Trial
    from holter.views.document.part import Part
    from holter.views.figure import Figure


class Picture:
    """One chart: `data` holds its rows and marks, or the reason why it is empty."""

    def __init__(self, data: Figure | str) -> None:
        self.data = data

    def __repr__(self) -> str:
        return self.data if isinstance(self.data, str) else f"<figure {self.data.title!r}>"

    def _repr_html_(self) -> str:
        return self._repr_mimebundle_()["text/html"]

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """Return the chart for notebooks: interactive HTML that contains a picture, and the picture alone."""
        from holter.drawing.interactive import interactive, standalone

        if isinstance(self.data, str):
            return {"text/plain": self.data, "text/html": escape(self.data)}
        return {
            "text/plain": repr(self),
            "text/html": interactive(self.data),
            "image/svg+xml": standalone(self.data),
        }

    def save(self, path: str) -> None:
        """Write the chart as an SVG file. Raises `ValueError` without data, `OSError` if it fails."""
        from pathlib import Path

        from holter.drawing.interactive import standalone

        if isinstance(self.data, str):
            raise ValueError(self.data)
        Path(path).write_text(standalone(self.data), encoding="utf-8")


class Frame(Rows):
    """A table of a job, whole or in part; every access reads the store."""

    def __init__(self, trial: Trial, name: str, **chosen: Any) -> None:
        self._trial = trial
        self._name = name
        self._chosen = chosen

    def select(
        self,
        *columns: str,
        start_ns: int | None = None,
        end_ns: int | None = None,
        where: str | None = None,
        **equal: str | int,
    ) -> Frame:
        """Return a smaller frame; only its rows are read.

        Args:
            columns: Names of columns; by default all.
            start_ns: Only rows at or after this time, nanoseconds since the epoch.
            end_ns: Only rows before this time.
            where: An SQL condition, as in `"phase = 'forward' AND step > 100"`.
            equal: Values of columns, as in `job.scalars.select(name="loss", mode="train", rank=0)`.

        Raises:
            KeyError: A column in `equal` does not exist.
        """
        conditions = [f"({given})" for given in (self._chosen.get("where"), where) if given]
        conditions += [_condition(self._name, column, value) for column, value in equal.items()]
        where = " AND ".join(conditions) or None
        asked = {"columns": columns or None, "start_ns": start_ns, "end_ns": end_ns, "where": where}
        asked = {name: value for name, value in asked.items() if value is not None}
        return Frame(self._trial, self._name, **{**self._chosen, **asked})

    @property
    def table(self) -> Table:
        """The rows as named numpy columns, read now and not kept."""
        found = self._steps() if self._name == "steps" else None
        return found if found is not None else self._trial.table(self._name, **self._chosen)

    def _steps(self) -> Table | None:
        """Compute steps from spans for a job without stored steps, which was not judged; else None."""
        if self._chosen or self._trial.table("steps", columns=("time",)).rows:
            return None
        from holter.views.tables import steps_of

        return steps_of(self._trial)

    def __repr__(self) -> str:
        narrowed = ", ".join(f"{name}={value!r}" for name, value in self._chosen.items())
        return f"Frame({self._name}{': ' + narrowed if narrowed else ''})"


class JobPart:
    """The rows of a job's tables that lie in one part of it; every access reads the store."""

    def __init__(self, folder: JobFolder, chosen: Part) -> None:
        self.folder = folder
        self.chosen = chosen
        """The part."""

    def part(
        self,
        *,
        start_ns: int | None = None,
        end_ns: int | None = None,
        steps: tuple[int, int] | None = None,
        nodes: Iterable[str] | None = None,
        ranks: Iterable[int] | None = None,
    ) -> JobPart:
        """Return a part with the same tables and statistics; parts can be narrowed down again.

        Args:
            start_ns: Only rows that begin at or after this time, nanoseconds since the epoch.
            end_ns: Only rows that begin before this time.
            steps: Instead of times: from the first step to the last step, both included.
            nodes: Only these nodes.
            ranks: Only these ranks; samples of the machine have no rank and are always included.

        Raises:
            LookupError: None of the steps was recorded.
            ValueError: Steps and a time are given.
        """
        from holter.views.document.part import Part

        before = self.chosen
        if steps is not None and (start_ns is not None or end_ns is not None):
            raise ValueError("give steps or times, not both")
        found = Part(
            before.start_ns if start_ns is None else max(start_ns, before.start_ns or start_ns),
            before.end_ns if end_ns is None else min(end_ns, before.end_ns or end_ns),
            before.nodes if nodes is None else tuple(nodes),
            before.ranks if ranks is None else tuple(ranks),
        )
        return JobPart(self.folder, found if steps is None else found.of_steps(self.trial, *steps))

    @property
    def trial(self) -> Trial:
        """The job's tables, opened now; `trial.sql("SELECT …")` queries them."""
        from holter.store.trial import Trial

        return Trial(self.folder)

    @property
    def samples(self) -> Frame:
        """Readings of system metrics."""
        return self.table("samples")

    @property
    def spans(self) -> Frame:
        """Timed spans: phases of steps, batches in preparation, annotations."""
        return self.table("spans")

    @property
    def scalars(self) -> Frame:
        """Numbers that the training produced, such as losses."""
        return self.table("scalars")

    @property
    def steps(self) -> Rows:
        """One row per step and rank, its time split into exclusive parts; nanoseconds."""
        return Frame(self.trial, "steps") if self.chosen.whole else Rows(self.chosen.steps(self.trial))

    @property
    def events(self) -> Frame:
        """Events: processes, loaders, exceptions, faults."""
        return self.table("events")

    @property
    def operators(self) -> Frame:
        """Operators of the framework and Python functions on the host, from profiling windows."""
        return self.table("operators")

    @property
    def kernels(self) -> Frame:
        """Kernels on accelerators, from profiling windows."""
        return self.table("kernels")

    def table(self, name: str) -> Frame:
        """Return a table by its name, such as `launches`; `holter.schema.tables` lists all.

        Raises:
            KeyError: The table does not exist; the text names all tables.
        """
        from holter.schema.tables import TABLES
        from holter.views.wording import meant

        if name not in TABLES:
            raise KeyError(f"no table {name!r}{meant(name, TABLES)}; there are: {', '.join(TABLES)}")
        condition = self.chosen.condition(name)
        return Frame(self.trial, name).select(
            start_ns=self.chosen.start_ns, end_ns=self.chosen.end_ns, where=condition
        )

    def utilization(self, *, by_device: bool = False, by_phase: bool = False) -> Rows:
        """Return min, p50, p90, p95, p99 and max of each metric of each node.

        Args:
            by_device: Keep devices apart.
            by_phase: One row per mode of steps, and one each for the time before, between and after them.
        """
        from holter.views.document import measures

        return _rows(measures.utilization(self.trial, self.chosen, by_device=by_device, by_phase=by_phase))

    def step_statistics(self, by: str = "mode") -> Rows:
        """Return statistics of durations, ms: of steps by `mode`; of spans by `phase` or `name`.

        Raises:
            ValueError: `by` has another value.
        """
        from holter.views.document import measures

        return _rows(measures.step_statistics(self.trial, self.chosen, by))

    def device_usage(self, ranges: Sequence[tuple[float, float]] = ((90, 100), (10, 90), (0, 10))) -> Rows:
        """Return the share of readings of cores and GPUs in each range of utilization, percent."""
        from holter.views.document import measures

        return _rows(measures.device_usage(self.trial, self.chosen, ranges))

    def phase_intervals(self) -> Rows:
        """Return the modes of steps and the time around them as intervals: `start`, `end`, `phase`; ns."""
        from holter.views.document import measures

        return Rows(measures.phase_intervals(self.trial, self.chosen))

    def find_bottlenecks(self, **limits: float) -> Rows:
        """Return times at which GPUs idled while cores were busy or waited, and slow steps, with their work.

        Args:
            limits: `gpu_below`, `core_above`, `iowait_above` and `sigmas`, as for
                `holter.views.document.bottlenecks`.
        """
        from holter.views.document.bottlenecks import find_bottlenecks

        return _rows(find_bottlenecks(self.trial, self.chosen, **limits))

    def running_at(self, moments: Sequence[int]) -> Document:
        """Return phases, operators and modes at given times, ns since the epoch."""
        from holter.views.document import measures

        return Document(measures.running_at(self.trial, self.chosen, moments))

    def running_during(self, stretches: Sequence[tuple[int, int]]) -> Document:
        """Return phases, operators and modes during intervals, ns since the epoch; see `running_at`."""
        from holter.views.document import measures

        return Document(measures.running_during(self.trial, self.chosen, stretches))

    def series(self, metric: str, buckets: int = 2000) -> Rows:
        """Return mean, min and max of a metric in `buckets` equal intervals, for each device.

        Raises:
            KeyError: The metric does not exist.
        """
        from holter.views.document import measures

        return Rows(measures.downsampled(self.trial, self.chosen, metric, buckets))

    def loaders(self) -> Document:
        """Return waits, workers and queues of the data loaders; see `holter.views.document.loaders`."""
        from holter.views.document.loaders import loaders

        return Document(loaders(self.trial, start_ns=self.chosen.start_ns, end_ns=self.chosen.end_ns))

    def __repr__(self) -> str:
        return f"holter.open({self.folder.url!r}).part({self.chosen})"


def _rows(found: Sequence[Mapping[str, object]]) -> Rows:
    from holter.schema.table import Table

    return Rows(Table.made_of(found))


def _condition(table: str, column: str, value: str | int) -> str:
    from holter.schema.tables import TABLES
    from holter.store.parquet.queries import literal, name

    if column != "node":
        TABLES[table].column(column)
    return f"{name(column)} = {literal(value) if isinstance(value, str) else repr(value)}"
