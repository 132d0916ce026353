"""`holter.open(url)`: one job, running or finished, as tables, tensors, a summary and a diagnosis."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from holter.frame import Document, Rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holter.schema.table import Table
    from holter.store.job import JobFolder
    from holter.store.trial import Trial
    from holter.tensors import Source, Tensors
    from holter.views.figures import Figure


def open(url: str) -> Job:
    """Open the job at a URL or path, as in `holter.open("holter-jobs/my-job")`.

    Raises:
        LookupError: There is no such job; the text names near ones.
    """
    from holter.store.job import at

    return Job(at(url))


def run_rules(
    job: Job | str,
    rules: Iterable[Any] | None = None,
    *,
    baselines: Iterable[Job | str] = (),
    strict_coverage: bool = False,
) -> Document:
    """Judge a job by rules; this is `holter.rules.run`. Nothing is written to the job.

    Args:
        job: The job, or its URL.
        rules: Rules, their names, or `pack:NAME`; by default those of the job, or those of `holter run`.
        baselines: Other jobs that rules compare with.
        strict_coverage: A rule that never could judge has failed.

    Returns:
        `job`, `exit_code` (0 no issue, 3 issues found, 1 a rule failed) and `rules`: a document a rule, as
        `holter rules run --json` prints them.

    Raises:
        ValueError: A rule or parameter that there is not, or a value out of range.
        LookupError: There is no such job.
    """
    from holter.evaluation import evaluate

    judged = open(job) if isinstance(job, str) else job
    others = [open(other) if isinstance(other, str) else other for other in baselines]
    chosen = judged.folder.manifest().get("rules") or ["pack:default"] if rules is None else rules
    result = evaluate(
        judged.folder,
        chosen,
        record=False,
        baselines={other.name: other.folder for other in others},
        strict_coverage=strict_coverage,
    )
    return Document(job=judged.name, exit_code=result.exit_code, rules=result.rules)


class Job:
    """One job of a store. Nothing is read before it is asked for, and a running job may have grown since."""

    def __init__(self, folder: JobFolder) -> None:
        self.folder = folder
        self.name = folder.name
        self.url = folder.url
        self._source: Source | None = None

    @property
    def trial(self) -> Trial:
        """The job's tables, opened to read now; `trial.sql("SELECT …")` answers any question."""
        from holter.store.trial import Trial

        return Trial(self.folder)

    @property
    def samples(self) -> Frame:
        """Readings of system metrics."""
        return Frame(self.trial, "samples")

    @property
    def spans(self) -> Frame:
        """Timed stretches of work: phases of steps, batches being built, annotations."""
        return Frame(self.trial, "spans")

    @property
    def scalars(self) -> Frame:
        """Numbers that training produced."""
        return Frame(self.trial, "scalars")

    @property
    def steps(self) -> Frame:
        """One row for each step of each rank, its time split into exclusive parts; nanoseconds."""
        return Frame(self.trial, "steps")

    @property
    def events(self) -> Frame:
        """Rare facts: processes, loaders, exceptions, faults."""
        return Frame(self.trial, "events")

    @property
    def operators(self) -> Frame:
        """Operators of the framework and functions of Python on the host, as profiling windows saw them."""
        return Frame(self.trial, "operators")

    @property
    def kernels(self) -> Frame:
        """Kernels on accelerators, as profiling windows saw them."""
        return Frame(self.trial, "kernels")

    def tensors(self, *patterns: str, collection: str | None = None, role: str | None = None) -> Tensors:
        """Choose tensors by patterns found in their names, by collection, by role; all when nothing is given.

        As in `job.tensors("gradient/.*").at(step=100)` or `job.tensors(role="weight").reduction("l2")`.

        Raises:
            ValueError: A pattern is none, or there is no such collection; the text names near ones.
        """
        from holter.tensors import Source, Tensors

        if self._source is None:
            self._source = Source(self.folder)
        return Tensors(self._source, *patterns, collection=collection, role=role)

    def summary(self, *, price: float | None = None) -> Document:
        """Return everything known of the job: the document that `holter describe --json` prints.

        Args:
            price: What one machine costs an hour, for the bill; by default what `holter run --price` said.

        Raises:
            ValueError: The price is negative or not finite.
        """
        from holter.views.description import describe

        return Document(describe(self.trial, price=price))

    def diagnose(self) -> Document:
        """Return the verdict and the breakdown it stands on: what `holter diagnose --json` prints."""
        from holter.views.description import diagnosis

        return Document(diagnosis(self.summary()))

    def figure(self, name: str) -> Picture:
        """Return one chart of the report; a notebook shows it. `holter.views.figures.names()` lists them.

        Raises:
            KeyError: There is no such chart; the text names those there are.
        """
        from holter.views.figures import Reading, draw

        return Picture(draw(name, Reading(self.trial)))

    def compare(self, *others: Job | str, **how: Any) -> Document:
        """Compare other jobs with this one: the document that `holter compare --json` prints.

        Args:
            others: The jobs, or their URLs.
            how: `price`, `epochs`, `nodes`, `epoch_steps`, `statistic`: see `holter.views.comparison`.

        Raises:
            ValueError: No other job is given, or a number is negative.
        """
        from holter.views.comparison import compare

        jobs = [self, *(open(other) if isinstance(other, str) else other for other in others)]
        return Document(compare([job.trial for job in jobs], **how))

    def python_profile(self, **chosen: Any) -> list[Document]:
        """Return what profilers of Python found; `holter.views.python_profile` says what can be chosen."""
        from holter.views.python_profile import python_profile

        return [Document(one) for one in python_profile(self.trial, **chosen)]

    def percentiles(self, **chosen: Any) -> Rows:
        """Return how each system metric was spread: least, percentiles, greatest, and how many readings.

        Args:
            chosen: `start_ns`, `end_ns`, `by_device`, `exact`: see `holter.views.readings`.
        """
        from holter.views.readings import percentiles

        return Rows(percentiles(self.trial, **chosen))

    def downsample(self, metric: str, **chosen: Any) -> Rows:
        """Return a system metric in few stretches of time: least, mean and greatest reading of each.

        Args:
            metric: Its name, as `gpu.util`.
            chosen: `device`, `node`, `buckets`, `start_ns`, `end_ns`: see `holter.views.readings`.

        Raises:
            ValueError: There is no such metric; the text names the nearest.
        """
        from holter.views.readings import downsample

        return Rows(downsample(self.trial, metric, **chosen))

    def loaders(self) -> Document:
        """Return what the data loaders did: waits, workers, queues; see `holter.views.loaders`."""
        from holter.views.loaders import loaders

        return Document(loaders(self.trial))

    def __repr__(self) -> str:
        return f"holter.open({self.url!r})"

    def _repr_html_(self) -> str:
        manifest = self.folder.manifest()
        command = " ".join(map(str, manifest.get("command") or []))
        status = escape(str(manifest.get("status")))
        return f"<b>{escape(self.name)}</b> · {status} · <code>{escape(command)}</code>"


class Picture:
    """One chart: `data` holds its rows and marks, or is the reason why there is nothing to draw."""

    def __init__(self, data: Figure | str) -> None:
        self.data = data

    def __repr__(self) -> str:
        return self.data if isinstance(self.data, str) else f"<figure {self.data.title!r}>"

    def _repr_html_(self) -> str:
        from holter.report.html import figure, style

        return escape(self.data) if isinstance(self.data, str) else style(".holter") + figure(self.data)


class Frame(Rows):
    """A table of a job that is read when it is asked for, whole or in part."""

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
        """Narrow the frame down; only what is left is read.

        Args:
            columns: Names of columns; all when none is given.
            start_ns: Only rows at or after this time, nanoseconds since the epoch.
            end_ns: Only rows before this time.
            where: An SQL condition, as in `"phase = 'forward' AND step > 100"`.
            equal: Values of columns, as in `job.scalars.select(name="loss", mode="train", rank=0)`.

        Raises:
            KeyError: There is no column that `equal` names.
        """
        conditions = [f"({given})" for given in (self._chosen.get("where"), where) if given]
        conditions += [_condition(self._name, column, value) for column, value in equal.items()]
        asked: dict[str, Any] = {"columns": columns or None, "start_ns": start_ns, "end_ns": end_ns}
        asked["where"] = " AND ".join(conditions) or None
        return Frame(
            self._trial, self._name, **{**self._chosen, **{k: v for k, v in asked.items() if v is not None}}
        )

    @property
    def table(self) -> Table:
        """The rows as named numpy columns, read now. The frame keeps nothing."""
        found = self._steps() if self._name == "steps" else None
        return found if found is not None else self._trial.table(self._name, **self._chosen)

    def _steps(self) -> Table | None:
        """Compute steps from spans when none are stored, as for a job that was not judged."""
        if self._chosen or self._trial.table("steps", columns=("time",)).rows:
            return None
        from holter.views.reading import steps_of

        return steps_of(self._trial)

    def __repr__(self) -> str:
        narrowed = ", ".join(f"{name}={value!r}" for name, value in self._chosen.items())
        return f"Frame({self._name}{': ' + narrowed if narrowed else ''})"


def _condition(table: str, column: str, value: str | int) -> str:
    from holter.schema.tables import TABLES
    from holter.store.parquet import literal, name

    if column != "node":
        TABLES[table].column(column)
    return f"{name(column)} = {literal(value) if isinstance(value, str) else repr(value)}"
