"""Computes the utilization of each device over time, a row for each core, GPU, disk and network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holter.analysis.machine.pooling import Pooled, held, pooled
from holter.schema.metrics import METRICS
from holter.store.parquet.queries import literals
from holter.views import heatmap_kept
from holter.views.heatmap_kept import WORTH
from holter.views.wording import natural, size

if TYPE_CHECKING:
    from holter.store.trial import Trial

    Key = tuple[str, str, str]

_METRICS = {
    "gpu.util": "",
    "cpu.core.util": "",
    "disk.read_bytes": "disk, read",
    "disk.write_bytes": "disk, written",
    "net.rx": "network, received",
    "net.tx": "network, sent",
}
"""Metrics of the rows from the top, with the row's name for metrics without devices."""
_LINK = "net.link_speed"
_LITTLE = 10e6
"""Lowest scale of a throughput row, bytes per second: any disk and any network reaches it."""
MOST_ROWS = 1024
_CELLS = 1 << 18
"""Number of cells, of 20 bytes each, in which the whole job is kept."""


@dataclass(frozen=True, slots=True)
class Row:
    """One device."""

    node: str
    metric: str
    device: str
    full: float = 100.0
    """What counts as 100 %: for bytes a second what the network's links carry, or else the most there was,
    but no less than `_LITTLE`."""

    @property
    def name(self) -> str:
        """The label of the row, with its full scale if that is not 100 %."""
        name = _METRICS[self.metric] or self.device
        return name if self.unit == "%" else f"{name}, of {size(self.full)}/s"

    @property
    def unit(self) -> str:
        """The unit of its readings."""
        return METRICS[self.metric].unit


@dataclass(frozen=True, slots=True)
class Heat:
    """The devices in a range of time."""

    start_ns: int
    step_ns: int
    """Time that one column stands for."""
    rows: list[Row]
    left_out: int
    """Number of devices beyond the limit of rows."""
    cells: Pooled


class Heatmap:
    """The devices of one job: the whole job is read once, and continued while the job runs."""

    def __init__(self, trial: Trial, start_ns: int, interval_ns: int, *, worth: int = WORTH) -> None:
        """Read a job.

        A reading covers about `interval_ns` before its time. The result is kept for an ended job with at
        least `worth` samples.
        """
        self.start_ns = start_ns
        self._interval = interval_ns
        self.rows: list[Row] = []
        self.left_out = 0
        self._step = 10**9
        self._keys: list[Key] = []
        self._kept = Pooled.empty(0, 0)
        found = heatmap_kept.read(trial, start_ns)
        if found is None:
            self.refresh(trial)
            self._keep(trial, worth)
            return
        head, self._kept = found
        self._trial, self._step, self._keys, self.left_out = trial, head.step_ns, head.keys, head.left_out
        self.rows = self._scaled()

    def _keep(self, trial: Trial, worth: int) -> None:
        """Keep what was read of a long job that has ended."""
        samples = trial.rows("samples")
        if samples < worth or not trial.manifest.get("end"):
            return
        kept = heatmap_kept.Kept(
            start_ns=self.start_ns,
            samples=samples,
            step_ns=self._step,
            stretches=self._kept.count.shape[1],
            left_out=self.left_out,
            keys=self._keys,
            **{field: getattr(self._kept, field).tobytes() for field in Pooled.__slots__},
        )
        heatmap_kept.write(trial, kept)

    @property
    def end_ns(self) -> int:
        """End of the last stretch that has readings."""
        return self.start_ns + int(self._kept.count.shape[1]) * self._step

    def refresh(self, trial: Trial) -> None:
        """Read new samples and new devices."""
        self._trial = trial
        done = max(0, self._kept.count.shape[1] - 1)  # the newest stretch may not have been over
        since = self.start_ns + done * self._step if done else None
        rows = sorted({*self._keys, *self._look(since)}, key=_place)
        last = max((last for _, last, _ in trial.groups("samples")), default=0) + 1
        if not rows or last <= self.start_ns:
            return
        self.left_out, rows = max(0, len(rows) - MOST_ROWS), rows[:MOST_ROWS]
        if rows != self._keys:
            # Devices came, as when a node joined: all is read anew.
            done, self._keys = 0, rows
            self._kept = Pooled.empty(len(rows), 0)
            self._step = max(2 * self._interval, -(-(last - self.start_ns) * len(rows) // _CELLS))
        count = -(-(last - self.start_ns) // self._step)
        fresh = self._read(self.start_ns + done * self._step, self._step, max(0, count - done))
        self._kept = Pooled(
            *(
                np.append(getattr(self._kept, of)[:, :done], getattr(fresh, of), axis=1)
                for of in Pooled.__slots__
            )
        )
        while self._kept.count.size > 2 * _CELLS:
            count = self._kept.count.shape[1]
            self._kept = pooled(self._kept, np.append(np.arange(0, count, 2), count))
            self._step *= 2
        self.rows = self._scaled()

    def _look(self, since: int | None) -> list[Key]:
        """Return the devices with samples since a time."""
        found = self._trial.sql(
            "SELECT DISTINCT node, metric, device FROM samples "  # noqa: S608
            f"WHERE metric IN ({literals([*_METRICS, _LINK])}) AND time >= {since or 0}",
            start_ns=since,
        )
        return [(row["node"], row["metric"], row["device"]) for row in found.to_rows()]

    def _scaled(self) -> list[Row]:
        """Return the rows with what counts as 100 % of each."""
        tops = np.fmax.reduce(self._kept.high, axis=1, initial=0.0).tolist()
        most = dict(zip(self._keys, tops, strict=True))
        rows = []
        for node, metric, device in self._keys:
            if metric == _LINK:
                continue
            full = 100.0
            if METRICS[metric].unit != "%":
                link = most.get((node, _LINK, ""), 0.0) if metric.startswith("net.") else 0.0
                full = max(link or _LITTLE, most[node, metric, device])
            rows.append(Row(node, metric, device, full))
        return rows

    def heat(self, start_ns: int, end_ns: int, width: int) -> Heat:
        """Return a range of time in at most `width` columns, which begin at whole multiples of their length.

        An empty range or a `width` below 1 raises `ValueError`.
        """
        if start_ns >= end_ns or width < 1:
            raise ValueError(f"the range from {start_ns} to {end_ns} in {width} columns is empty")
        step = -(-(end_ns - start_ns) // width)
        if step < self._step:
            begin = self.start_ns + (start_ns - self.start_ns) // step * step
            cells = self._read(begin, step, -(-(end_ns - begin) // step))
            return Heat(begin, step, self.rows, self.left_out, self._shown(cells))
        every = -(-step // self._step)
        step = every * self._step
        first = (start_ns - self.start_ns) // step
        last = -(-(end_ns - self.start_ns) // step)
        whole = self._kept.count.shape[1]
        edges = np.clip(np.arange(first, last + 1) * every, 0, whole)
        cells = pooled(self._kept, edges)
        return Heat(self.start_ns + first * step, step, self.rows, self.left_out, self._shown(cells))

    def _shown(self, cells: Pooled) -> Pooled:
        """Drop the link speeds: they only define 100 %."""
        devices = [place for place, (_, metric, _) in enumerate(self._keys) if metric != _LINK]
        return Pooled(*(getattr(cells, field)[devices] for field in Pooled.__slots__))

    def _read(self, start_ns: int, step: int, count: int) -> Pooled:
        """Read the devices in so many stretches."""
        cells = Pooled.empty(len(self._keys), count)
        if not count or not self._keys:
            return cells
        end_ns = start_ns + count * step
        places = ", ".join(f"({place}, {literals(key)})" for place, key in enumerate(self._keys))
        metrics = literals(sorted({metric for _, metric, _ in self._keys}))
        found = self._trial.sql(
            f"SELECT place, (time - {start_ns}) // {step} AS at, min(value) AS low, max(value) AS high, "  # noqa: S608
            "sum(value) AS total, count(*) AS count FROM samples "
            f"JOIN (VALUES {places}) AS listed(place, node, metric, device) USING (node, metric, device) "
            f"WHERE metric IN ({metrics}) AND time >= {start_ns} AND time < {end_ns} AND NOT isnan(value) "
            "GROUP BY ALL",
            start_ns=start_ns,
            end_ns=end_ns,
        )
        where = found["place"].astype(np.int64), found["at"].astype(np.int64)
        for field in ("low", "high", "total", "count"):
            getattr(cells, field)[where] = found[field]
        reach = -(-3 * self._interval // (2 * step))  # readings come late now and then
        return held(cells, reach) if step < 2 * self._interval else cells


def keep(trial: Trial, interval_ns: int) -> None:
    """Have what the heat map of a long job shows at hand, now that it has ended; of others do nothing."""
    if trial.rows("samples") >= WORTH:
        Heatmap(trial, int(trial.manifest.get("start") or 0), interval_ns)


def _place(key: Key) -> tuple[object, ...]:
    node, metric, device = key
    return node, [*_METRICS, _LINK].index(metric), natural(device)
