"""LoadBalancing: GPUs are used unevenly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from holter.rules import Issues, Lookback, Place, Reason, Rule, Series, Window, parameter, rule_class
from holter.rules.patterns.gpu_owners import READS, ours, owners
from holter.rules.patterns.patience import start_of, too_early

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


_FARTHEST = math.sqrt(math.log(2.0))
_SHOWN = 16
_MAX_DEVICES = 512
"""Number of GPUs that are compared: the number of pairs grows with its square."""


@rule_class
class LoadBalancing(Rule):
    """The utilizations of two GPUs are distributed differently, and their means differ."""

    reads = ("samples/gpu.util", READS, "steps")
    formula = (
        "Jensen-Shannon distance between the utilization histograms of two GPUs > threshold; modern: as a "
        "share of the largest possible distance, and the means differ by >= min_mean_difference"
    )
    advice = (
        "Check the sharding, the sequence lengths, and the hardware of the named GPU: the devices do "
        "unequal work."
    )
    packs = ("distributed", "sagemaker")
    every_s = 60.0

    threshold: float = parameter(0.3, classic=0.2, low=0, high=1)
    """Distance above which two GPUs differ."""
    normalised: bool = parameter(True, classic=False)
    """Divide distances by the largest possible one, the square root of ln 2."""
    min_mean_difference: float = parameter(10.0, classic=0.0, low=0, high=100, unit="percentage points")
    """The mean utilizations must also differ by this much."""
    scope: str = parameter("run", classic="node", choices=("run", "node"))
    """Whether GPUs are compared across the job (run) or within each node (node)."""
    bin_width: float = parameter(5.0, classic=2.0, low=0.5, high=50, unit="%")
    """Width of a histogram bin."""
    patience: int | None = parameter(None, classic=1000, above=0, unit="readings", instead_of="patience_s")
    """The rule compares two GPUs only after more readings of both than this."""
    patience_s: float | None = parameter(300.0, classic=None, above=0, unit="s")
    """The same as a time, counted from the end of warm-up."""
    window_s: float | None = parameter(600.0, classic=None, above=0, unit="s")
    """How far back readings count; none = the whole job."""

    @property
    def lookback(self) -> Lookback:
        """The window, or new rows only."""
        return Lookback(seconds=self.window_s)

    def evaluate(self, window: Window) -> Issues:
        """Compare the GPUs in pairs, and report the most unequal pair of each node or of the job."""
        if (since := start_of(window, skip_warmup=self.window_s is not None)) is None:
            return
        series = window.series("gpu.util", since=since, new=self.window_s is None)
        known = owners(window)
        counts = self._counts(window, since, {place: series[place] for place in ours(series, known)})
        # UnusedGPU judges a GPU that was never used.
        used = {place: count for place, count in counts.items() if count[1:].sum() > 0}
        groups = {"": sorted(used)[:_MAX_DEVICES]}
        if self.scope == "node":
            groups = {n: sorted(p for p in used if p[0] == n) for n in sorted({n for n, _ in used})}
        if all(len(places) < 2 for places in groups.values()):
            if window.lack is None:
                reason: Reason = "no_match" if counts else "no_input"
                window.insufficient(reason, "fewer than two GPUs are used by the job")
            return
        workloads: dict[str, list[int]] = {}
        distances: dict[str, dict[str, float]] = {}
        for node, places in groups.items():
            if len(places) < 2:
                continue
            if not self._certain(window, places, known):
                text = "there are more GPUs than ranks, so the GPUs of this job are unknown"
                window.insufficient("no_match", text)
                continue
            window.details = {"workloads": workloads, "distances": distances}
            yield from self._compare(node, {place: used[place] for place in places}, workloads, distances)

    def _counts(
        self, window: Window, since: int, series: dict[Place, Series]
    ) -> dict[Place, NDArray[np.float64]]:
        """Return the histogram of each GPU that has enough readings."""
        bins = max(1, round(100.0 / self.bin_width))
        kept: dict[str, list[float]] = window.state.setdefault("counts", {})
        found = {}
        for (node, device), one in series.items():
            where = np.clip((one.value / self.bin_width).astype(np.int64), 0, bins - 1)
            count = np.bincount(where, minlength=bins).astype(np.float64)
            if self.window_s is None:
                key = f"{node}/{device}"
                count += np.array(kept.get(key, [0.0] * bins))
                kept[key] = count.tolist()
            seconds = (int(one.time[-1]) - since) / 1e9
            if not too_early(window, device, float(count.sum()), self.patience, seconds, self.patience_s):
                found[node, device] = count
                window.judged(len(one.value))
        return found

    def _certain(self, window: Window, places: list[Place], known: dict[Place, int]) -> bool:
        if self.window_s is None or all(place in known for place in places):
            return True
        ranks = len(window.job.warm)
        return ranks == 0 or ranks >= len(places)

    def _compare(
        self,
        node: str,
        counts: dict[Place, NDArray[np.float64]],
        workloads: dict[str, list[int]],
        distances: dict[str, dict[str, float]],
    ) -> Issues:
        middles = (np.arange(len(next(iter(counts.values())))) + 0.5) * self.bin_width
        means = {place: float(c @ middles / c.sum()) for place, c in counts.items()}
        scale = _FARTHEST if self.normalised else 1.0
        apart = {}
        few = sorted(counts)[:_SHOWN]
        workloads.update({_name(place): counts[place].astype(int).tolist() for place in few})
        places = list(counts)
        histograms, mean = np.array(list(counts.values())), np.array(list(means.values()))
        for at, one in enumerate(places[:-1]):
            far = distances_to(histograms[at], histograms[at + 1 :]) / scale
            if one in few:
                shown = [place for place in places[at + 1 :] if place in few]
                told = {_name(place): round(float(far[places.index(place) - at - 1]), 4) for place in shown}
                distances.update({_name(one): told} if told else {})
            uneven = (far > self.threshold) & (np.abs(mean[at + 1 :] - mean[at]) >= self.min_mean_difference)
            apart.update({(one, places[at + 1 + k]): float(far[k]) for k in np.flatnonzero(uneven).tolist()})
        if not apart:
            return
        one, other = max(apart, key=lambda pair: (apart[pair], pair))
        busy, idle = (one, other) if means[one] >= means[other] else (other, one)
        yield self.issue(
            f"{_name(busy)} and {_name(idle)} are used unevenly: {means[busy]:.0f} % and {means[idle]:.0f} %",
            node=node or None,
            evidence={
                "distance": apart[one, other],
                "threshold": self.threshold,
                "pairs": len(apart),
                "mean_pct": {_name(place): mean for place, mean in sorted(means.items())[:64]},
            },
        )


def distance(first: ArrayLike, second: ArrayLike) -> float:
    """Return the Jensen-Shannon distance of two histograms, by natural logarithms: 0 to the root of ln 2."""
    one, others = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    return float(distances_to(one, others[np.newaxis])[0])


def distances_to(one: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distance of one histogram to each row of others."""
    p, q = one / one.sum(), others / others.sum(axis=1, keepdims=True)
    middle = (p + q) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [np.where(x > 0, x * np.log(x / middle), 0.0).sum(axis=1) for x in (p, q)]
    found: NDArray[np.float64] = np.sqrt(np.maximum(0.0, sum(parts) / 2))
    return found


def _name(place: Place) -> str:
    return f"{place[1]} of {place[0]}" if place[0] else place[1]
