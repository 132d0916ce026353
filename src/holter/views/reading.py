"""Reads a job for charts and pages: what several of them need is read once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from holter.analysis.loading.dataloading import loaders
from holter.analysis.loading.loader_timeline import batches
from holter.analysis.steps.warmup import steady
from holter.store.parquet.queries import literal
from holter.views.document.description import describe
from holter.views.document.planned import MainLoader, planned
from holter.views.document.profiled import ProfiledTables
from holter.views.tables import steps_of
from holter.views.wording import natural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holter.schema.table import Table
    from holter.store.trial import Trial
    from holter.views.document.types import Description
    from holter.views.figure import Figure


_LAST_NS = 300_000_000_000
"""The last minutes of a job have all of its devices."""
MOST_ROWS = 1_000_000
"""Beyond this number of spans, only the last ones of the lowest rank are read."""
_PHASES = "phase IN ('data_loading', 'fetch', 'collate')"
_COLUMNS = ("time", "duration", "rank", "worker", "thread", "phase", "name", "value")


class Loading:
    """The spans of data loading, and the batches that they belong to."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self.note = ""
        """A sentence about omitted spans; empty if all spans were read."""

    @cached_property
    def spans(self) -> Table:
        """Waits, fetches and collations."""
        counted = self._trial.sql(
            f"SELECT rank, count(*) AS number, max(time) AS last FROM spans WHERE {_PHASES} GROUP BY rank"  # noqa: S608
        )
        if int(counted["number"].sum()) <= MOST_ROWS:
            return self._trial.table("spans", columns=_COLUMNS, where=_PHASES)
        rank = int(counted["rank"].min())
        found = self._trial.table("spans", columns=_COLUMNS, where=f"{_PHASES} AND rank = {rank}")
        self.note = f"Of rank {rank} only" + (", and the end of the job." if found.rows > MOST_ROWS else ".")
        return found.where(slice(max(found.rows - MOST_ROWS, 0), None))

    @cached_property
    def batches(self) -> Table:
        """Each batch from the worker that built it to the training thread that took it."""
        facts = loaders(self._trial.table("events", where="kind = 'loader'"))
        counts = {one["index"]: one["workers"] for one in facts if one.get("workers") and "index" in one}
        return batches(self.spans, counts)

    @property
    def ranks(self) -> list[int]:
        """Ranks that load."""
        return [int(rank) for rank in np.unique(self.spans["rank"]) if rank >= 0]

    def between(self, start_ns: int, end_ns: int, rank: int) -> Table:
        """Return the spans of one rank that reach into a stretch of time."""
        spans = self.spans
        mine = (spans["rank"] == rank) & (spans["time"] < end_ns)
        return spans.where(mine & (spans["time"] + spans["duration"] > start_ns))


class WindowBounds(TypedDict, total=False):
    """A range of time as tables take it; without keys the whole job."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Reading:
    """A job or a time window of it; its description, steps and other shared data are read once."""

    trial: Trial
    now_ns: int | None = None
    width: int = field(default=300)
    """Number of points that fit on the x axis of a chart."""
    price: float | None = None
    """What one machine costs an hour, for the bill; None for what the job says of it."""
    window: tuple[float, float] | None = None
    """What is drawn, seconds since the job's start; None for all of it."""
    node: str | None = None
    """The only node whose machine is drawn; None for all of them."""
    devices: tuple[str, ...] = ()
    """Cores, GPUs or interfaces that are drawn with the mean of all."""
    kept: dict[tuple[Any, ...], Figure | str] | None = field(default=None, repr=False, compare=False)
    """A cache of drawn charts by name, options and window; None for no cache."""
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
        """The loader from which the training takes its batches; None if unknown."""
        if self.whole is not None:
            return self.whole.main_loader
        return MainLoader.of(self.trial, len(self.description["ranks"]), self.steps.rows)

    @cached_property
    def planned(self) -> tuple[int, str] | None:
        """The planned number of steps and its source; None if unknown."""
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
        return self.steps if self.window is None or not self.steps.rows else self.steps.where(self._inside)

    @cached_property
    def _inside(self) -> NDArray[np.bool_]:
        """Which rows of table `steps` have a part in the window."""
        if self.window is None:
            return np.ones(self.steps.rows, dtype=bool)
        ends = self.steps["time"] + self.steps["duration"]
        inside: NDArray[np.bool_] = (ends > self.since) & (self.steps["time"] < self.until)
        return inside

    @cached_property
    def _steady(self) -> NDArray[np.bool_]:
        """Which rows of table `steps` are steady state, see `steady`."""
        return steady(self.steps) if self.whole is None else self.whole._steady

    def drawn_steady(self, rank: int | None) -> NDArray[np.bool_]:
        """Return which rows of table `steps` are steady state, in the window, and of one rank or any."""
        mine: NDArray[np.bool_] = self._steady & self._inside
        return mine if rank is None else mine & (self.steps["rank"] == rank)

    def drawn_steps_of(self, rank: int | None) -> Table:
        """The steps of one rank of which a part lies in the window; of all ranks for None."""
        steps = self.drawn_steps
        return steps if rank is None or not steps.rows else steps.where(steps["rank"] == rank)

    @cached_property
    def profiled(self) -> ProfiledTables:
        """The tables of profiling windows and traces, of the whole job."""
        return ProfiledTables(self.trial) if self.whole is None else self.whole.profiled

    @cached_property
    def loading(self) -> Loading:
        """The spans of data loading, of the whole job."""
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
    def bounds(self) -> WindowBounds:
        """The window; neither bound for the whole job."""
        return {} if self.window is None else {"start_ns": self.since, "end_ns": self.until}

    @property
    def inside(self) -> str:
        """The SQL condition for rows that begin in the window."""
        return "true" if self.window is None else f"time >= {self.since} AND time < {self.until}"

    @cached_property
    def interval_ns(self) -> int:
        """How much time a sample of the machine stands for."""
        given = (self.trial.manifest.get("interval_ms"), self.trial.folder.control().get("interval_ms"))
        return max((int(ms * 1e6) for ms in given if isinstance(ms, int | float)), default=10**9)

    def sampled_devices(self, metric: str) -> list[str]:
        """Return the devices of the node that have a metric, `cpu2` before `cpu10`."""
        node = "true" if self.node is None else f"node = {literal(self.node)}"
        query = f"SELECT DISTINCT device FROM samples WHERE metric = '{metric}' AND {node} AND time >= "  # noqa: S608
        since = self.end - _LAST_NS
        found = self.trial.sql(f"{query}{since}", start_ns=since)
        table = found if found.rows else self.trial.sql(f"{query}0")
        return sorted(table["device"].astype(str).tolist(), key=natural)
