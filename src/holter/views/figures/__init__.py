"""Charts as data: one chart, one file; rows and marks, no pixels. The report and the notebook draw them.

To add a chart, add a file with `MISSING`, what to say when there is nothing to draw, and
`draw(reading) -> Figure | None`. The folder is the registry. What a chart can be asked for, as a rank or a
tensor, are keyword-only parameters of its `draw`, each None unless asked for: `int`, `float` or `str`.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal

from holter.plugins import modules
from holter.views.document.description import describe
from holter.views.document.main_loader import MainLoader
from holter.views.document.planned import planned
from holter.views.document.profiled import Profiled
from holter.views.loading import Loading
from holter.views.reading import steps_of
from holter.views.wording import meant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.schema.table import Table
    from holter.store.trial import Trial
    from holter.views.document.types import Description

__all__ = ["Axis", "Figure", "Reading", "Series", "chosen", "draw", "names"]

SUBJECTS = ("steps", "loading", "device", "machine", "training", "tensors")
"""The folders that hold charts."""
_FRACTION = re.compile(r"\d{1,18}(\.\d{0,18})?")
Kind = Literal["lines", "stacked", "bars", "heatmap", "boxes", "shares", "stretches"]


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis shows. Of `time` the values are seconds since the job's start."""

    label: str
    unit: str = ""
    log: bool = False
    top: float | None = None
    """Where the axis ends, when that is known beforehand, as 100 %."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line, area, row of bars or row of cells; a value that is None is a gap."""

    name: str
    values: list[float | None]
    low: list[float | None] | None = None
    """With `high`: the band around a line, as the least and the greatest value behind each."""
    high: list[float | None] | None = None
    key: str = ""
    """What it stands for, where charts share a color for it: a part of a step."""
    joined: bool = False
    """Whether a line goes on over a gap: what is logged now and then has none in between to miss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One chart.

    `lines`, `stacked`: `x` are positions, one for each value. `bars`: `x` are labels, or the edges of a
    histogram, one more than values. `heatmap`: a row for each series. `boxes`: each series holds least,
    lower quartile, median, upper quartile and greatest of what it names. `shares`: parts of a whole, `x` are
    their names. `stretches`: what went on when, in rows; `x` are the two ends of the axis, and a series holds
    in `values` the row (its place in `rows`), in `low` the begin and in `high` the end of each stretch.
    """

    title: str
    kind: Kind
    x: list[Any]
    x_axis: Axis
    y_axis: Axis
    series: list[Series]
    note: str = ""
    """What a reader must know to read it right."""
    labels: list[str] | None = None
    """Short forms of the names in `x`, for where there is little room."""
    rows: list[str] | None = None
    """Names of the rows of `stretches`."""
    broken: list[float] | None = None
    """Of `lines`: positions at which a value is not finite, which no line can show."""

    def to_json(self) -> dict[str, Any]:
        """Return the figure as JSON can hold it."""
        return asdict(self)


@dataclass(frozen=True)
class Reading:
    """A job as charts read it, all of it or a window of time; what several of them need is read once."""

    trial: Trial
    now_ns: int | None = None
    width: int = field(default=300)
    """Points along the x axis that a chart has room for."""
    price: float | None = None
    """What one machine costs an hour, for the bill; None for what the job says of it."""
    window: tuple[float, float] | None = None
    """What is drawn, seconds since the job's start; None for all of it."""
    node: str | None = None
    """The only node whose machine is drawn; None for all of them."""
    devices: tuple[str, ...] = ()
    """Cores, GPUs or interfaces that are drawn beside the mean of all."""
    kept: dict[tuple[Any, ...], Figure | str] | None = field(default=None, repr=False, compare=False)
    """Where what is drawn is kept, for who needs it several times: by chart, part and what was asked for."""
    whole: Reading | None = field(default=None, repr=False)
    """The reading that this is a part of."""
    before: Table | None = field(default=None, repr=False, compare=False)
    """The steps of an earlier reading of the same job: only what came since is read."""

    def at(
        self,
        window: tuple[float, float] | None,
        width: int,
        *,
        node: str | None = None,
        devices: tuple[str, ...] = (),
    ) -> Reading:
        """Return the same job seen through a window, drawn from data of that resolution."""
        whole = self.whole or self
        return replace(self, window=window, width=width, node=node, devices=devices, whole=whole)

    @cached_property
    def description(self) -> Description:
        """The document that `holter describe` prints, of the whole job."""
        if self.whole is not None:
            return self.whole.description
        return describe(self.trial, now_ns=self.now_ns, price=self.price, steps=lambda: self.steps)

    @cached_property
    def main_loader(self) -> MainLoader | None:
        """The loader that the training takes its batches from; None where none is known."""
        return MainLoader.of(self) if self.whole is None else self.whole.main_loader

    @cached_property
    def planned(self) -> tuple[int, str] | None:
        """How many steps the job will take and who said so; None where nobody did."""
        if self.whole is not None:
            return self.whole.planned
        loader = self.main_loader
        return planned(self.trial, loader.number if loader else None, loader.a_step if loader else 0)

    @cached_property
    def steps(self) -> Table:
        """Table `steps`, of the whole job."""
        return steps_of(self.trial, self.before) if self.whole is None else self.whole.steps

    @cached_property
    def drawn_steps(self) -> Table:
        """The steps of which a part lies in the window."""
        if self.window is None or not self.steps.rows:
            return self.steps
        ends = self.steps["time"] + self.steps["duration"]
        return self.steps.where((ends > self.since) & (self.steps["time"] < self.until))

    @cached_property
    def profiled(self) -> Profiled:
        """What accelerators and the host did in windows and traces, of the whole job."""
        return Profiled(self.trial) if self.whole is None else self.whole.profiled

    @cached_property
    def loading(self) -> Loading:
        """What data loaders did, of the whole job."""
        return Loading(self.trial) if self.whole is None else self.whole.loading

    @property
    def start(self) -> int:
        """When the job began, ns."""
        return int(self.description["job"]["start"] or 0)

    @property
    def end(self) -> int:
        """When it ended, or now; ns."""
        seconds = self.description["job"]["duration_s"]
        return self.start + int((seconds or 0) * 1e9)

    @property
    def since(self) -> int:
        """Where the window begins, ns."""
        return self.start if self.window is None else self.start + round(self.window[0] * 1e9)

    @property
    def until(self) -> int:
        """Where it ends, excluded; ns."""
        return self.end if self.window is None else self.start + round(self.window[1] * 1e9)

    @property
    def bounds(self) -> dict[str, Any]:
        """The window as tables take it: `start_ns` and `end_ns`, neither for the whole job."""
        return {} if self.window is None else {"start_ns": self.since, "end_ns": self.until}

    @cached_property
    def interval_ns(self) -> int:
        """How much time a sample of the machine stands for."""
        given = (self.trial.manifest.get("interval_ms"), self.trial.folder.control().get("interval_ms"))
        return max((int(ms * 1e6) for ms in given if isinstance(ms, int | float)), default=10**9)


def names() -> list[str]:
    """Return the names of all charts."""
    return list(_charts())


def draw(name: str, reading: Reading, **options: Any) -> Figure | str:
    """Draw one chart; return why there is nothing to draw, and how that could be changed, if so.

    Args:
        name: The chart.
        reading: The job.
        options: What the chart can be asked for, see `chosen`.

    Raises:
        KeyError: There is no such chart; the text names those there are.
        ValueError: The job has no such rank, device or tensor; the text names those there are.
    """
    chart = _chart(name)
    key = (name, tuple(sorted(options.items())), reading.node, reading.devices, reading.window, reading.width)
    if reading.kept is not None and key in reading.kept:
        return reading.kept[key]
    figure: Figure | None = chart.draw(reading, **options)
    drawn = str(chart.MISSING) if figure is None else figure
    if reading.kept is not None:
        reading.kept[key] = drawn
    return drawn


def chosen(name: str, asked: Mapping[str, str]) -> dict[str, Any]:
    """Return of an address's parameters those that a chart can be asked for, numbers as such.

    Raises:
        KeyError: There is no such chart.
        ValueError: A number is none.
    """
    found: dict[str, Any] = {}
    for parameter in inspect.signature(_chart(name).draw).parameters.values():
        text = asked.get(parameter.name, "")
        if parameter.kind is parameter.KEYWORD_ONLY and text:
            kind = str(parameter.annotation).partition(" ")[0]
            if kind == "int" and not (text.isdecimal() and len(text) < 19):
                raise ValueError(f"{parameter.name} is {text!r}, which is no whole number")
            if kind == "float" and not _FRACTION.fullmatch(text):
                raise ValueError(f"{parameter.name} is {text!r}, which is no number")
            found[parameter.name] = {"int": int, "float": float}.get(kind, str)(text)
    return found


@cache
def _charts() -> dict[str, Any]:
    return modules(__name__, *SUBJECTS)


def _chart(name: str) -> Any:
    charts = _charts()
    if name not in charts:
        raise KeyError(f"no chart {name!r}{meant(name, charts)}; there are: {', '.join(charts)}")
    return charts[name]
