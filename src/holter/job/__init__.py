"""`holter.open(url)`: one job, running or finished, as tables, tensors, a summary and a diagnosis."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

from holter.frame import Document
from holter.job.part import Frame, JobPart, Picture
from holter.views.document.part import Part

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holter.job.plots import Plots
    from holter.store.job import JobFolder
    from holter.tensors import Source, Tensors
    from holter.views.document.types import Description

__all__ = ["Document", "Frame", "Job", "JobPart", "Picture", "open", "run_rules"]


def open(url: str = "latest", store: str | None = None) -> Job:
    """Open a job, as in `holter.open("latest")`, `holter.open("my-job")` or `holter.open("s3://bucket/jobs/my-job")`.

    Args:
        url: What the commands take, too: `latest`, a job's name or the start of it, or its path or URL.
        store: URL of the store; by default `HOLTER_STORE`, else `./holter-jobs`. A path or URL needs none.

    Raises:
        LookupError: The job does not exist, and the text names near ones; or the folder holds no job.
    """
    from holter.store.job import JobNotFound, at
    from holter.store.layout import parse_part
    from holter.store.named import named

    folder = at(url) if store is None and os.path.isdir(url) else named(url, store)
    held = (entry.key for entry in folder.place.files()) if folder.fault else ()
    if folder.fault and not any(parse_part(key) for key in held):
        raise JobNotFound(
            f"{url!r} is a folder without a job: {folder.fault}, and it holds no table; `holter run` records "
            "a job, `holter import` makes one of traces"
        )
    return Job(folder)


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
        rules: Rules, their names, or `pack:NAME`; by default those of the job, or those of `holter run`. A
            job's rule from a file runs only if it is named here.
        baselines: Other jobs, for rules that compare jobs.
        strict_coverage: Count a rule without data to judge as failed.

    Returns:
        `job`, `exit_code` (0 no issue, 3 issues found, 1 a rule failed) and `rules`: one document per rule,
        as `holter rules run --json` prints them; `left_out` names rules of the job that did not run.

    Raises:
        ValueError: An unknown rule or parameter, or a value out of range.
        LookupError: The job does not exist.
    """
    from holter.evaluation import evaluate

    judged = _opened(job)
    others = [_opened(other) for other in baselines]
    if rules is None and not judged.folder.manifest().get("rules"):
        rules = ["pack:default"]
    result = evaluate(
        judged.folder,
        rules,
        record=False,
        baselines={other.name: other.folder for other in others},
        strict_coverage=strict_coverage,
    )
    left_out = {"left_out": result.left_out} if result.left_out else {}
    return Document(job=judged.name, exit_code=result.exit_code, rules=result.rules, **left_out)


def _opened(job: Job | str) -> Job:
    return open(job) if isinstance(job, str) else job


class Job(JobPart):
    """One job of a store. Every access reads the store, so the results of a running job grow."""

    def __init__(self, folder: JobFolder) -> None:
        super().__init__(folder, Part())
        self.name = folder.name
        self.url = folder.url
        self._source: Source | None = None

    def tensors(self, *patterns: str, collection: str | None = None, role: str | None = None) -> Tensors:
        """Select tensors by patterns found in their names, by collection or by role; by default all.

        As in `job.tensors("gradient/.*").at(step=100)` or `job.tensors(role="weight").reduction("l2")`.

        Raises:
            ValueError: A pattern is not valid, or the collection does not exist; the text names near ones.
        """
        from holter.tensors import Source, Tensors

        if self._source is None:
            self._source = Source(self.folder)
        return Tensors(self._source, *patterns, collection=collection, role=role)

    def summary(self, *, price: float | None = None) -> Document:
        """Return everything that is known about the job: the document that `holter describe --json` prints.

        Args:
            price: Price of one machine per hour, for the bill; by default that of `holter run --price`.

        Raises:
            ValueError: The price is negative or not finite.
        """
        from holter.views.document.description import describe

        return Document(describe(self.trial, price=price))

    def diagnose(self) -> Document:
        """Return the verdict and the parts of a step, as `holter diagnose --json` prints them."""
        from holter.views.document.description import diagnosis

        return Document(diagnosis(cast("Description", self.summary())))

    def figure(self, name: str) -> Picture:
        """Return one chart of the report; a notebook shows it. `holter.views.figures.names()` lists them.

        Raises:
            KeyError: The chart does not exist; the text names all charts.
        """
        from holter.views.figures import draw
        from holter.views.reading import Reading

        return Picture(draw(name, Reading(self.trial)))

    @property
    def plot(self) -> Plots:
        """Charts by short names: `job.plot.loss()`, `job.plot.steps()`, `job.plot.phases()`."""
        from holter.job.plots import Plots

        return Plots(self.trial)

    def compare(self, *others: Job | str, **how: Any) -> Document:
        """Compare other jobs with this one: the document that `holter compare --json` prints.

        Args:
            others: The jobs, or their URLs.
            how: `price`, `epochs`, `nodes`, `epoch_steps` and `statistic`, as for
                `holter.views.comparison.document`; `tensors=True` also finds the first difference of the
                tensors, and `perturbed` is the job, or its URL, that shows their round-off.

        Raises:
            ValueError: No other job is given, or a number is negative.
        """
        from holter.views.comparison.document import compare

        jobs = [self, *(_opened(other) for other in others)]
        if (perturbed := how.get("perturbed")) is not None:
            how["perturbed"] = _opened(perturbed).trial
        return Document(compare([job.trial for job in jobs], **how))

    def python_profile(self, **chosen: Any) -> list[Document]:
        """Return the results of Python profilers; for `chosen` see `holter.views.document.python_profile`."""
        from holter.views.document.python_profile import python_profile

        return [Document(one) for one in python_profile(self.trial, **chosen)]

    def __repr__(self) -> str:
        return f"holter.open({self.url!r})"

    def _repr_html_(self) -> str:
        return self._repr_mimebundle_()["text/html"]

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """Return the card of the job as text and as HTML, for notebooks."""
        from holter.job import card

        return card.bundle(cast("Description", self.summary()), self.url)
