"""ThermalThrottling: heat or power limits lower GPU clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holter.analysis.machine.snapshots import matrix
from holter.analysis.steps.spread import median
from holter.rules import Issue, Issues, Lookback, Place, Rule, Window, parameter, rule_class
from holter.rules.engine.levels import grade, worst
from holter.rules.patterns.gpu_owners import READS, ours, owners

if TYPE_CHECKING:
    from numpy.typing import NDArray


_CAP, _HARDWARE, _SOFT_HEAT, _HARD_HEAT, _BRAKE = 0x4, 0x8, 0x20, 0x40, 0x80
"""NVML's clock event reasons: power cap, slow-down, heat by software and hardware, power brake."""
_WINDOW_S = 600.0
_HOT_S = 60.0


class _Gpu(NamedTuple):
    readings: int
    heat: float
    slow: float
    brake: float
    cap: float
    clock: float | None


@rule_class
class ThermalThrottling(Rule):
    """A busy GPU lowers its clock because of heat or power, or runs slower than other GPUs of its model."""

    reads = (
        "samples/gpu.util",
        "samples/gpu.throttle_reasons",
        "samples/gpu.clock_sm",
        "samples/gpu.temp",
        "samples/gpu.temp_slowdown",
        "samples/gpu.mem_temp",
        READS,
    )
    formula = (
        "share of busy readings throttled by heat > info, warning, or critical; by hardware or power brake "
        ">= hardware_*; median clock below other GPUs of the model by >= deficit_*; or a minute within 3 "
        "degrees of the slow-down temperature"
    )
    advice = (
        "Check the cooling, the airflow and the power limit of the GPU; one slow GPU slows down a whole "
        "synchronous job."
    )
    packs = ("performance",)
    every_s = 60.0
    consecutive = 2
    lookback = Lookback(seconds=_WINDOW_S)

    info: float | None = parameter(0.0, low=0, high=100, unit="%")
    """Share of busy readings throttled by heat above which the rule reports a note."""
    warning: float | None = parameter(1.0, low=0, high=100, unit="%")
    """Share of busy readings throttled by heat that is a warning."""
    critical: float | None = parameter(10.0, low=0, high=100, unit="%")
    """Share of busy readings throttled by heat that is critical."""
    hardware_warning: float | None = parameter(0.1, low=0, high=100, unit="%")
    """Share of busy readings slowed by hardware or a power brake that is a warning."""
    hardware_critical: float | None = parameter(5.0, low=0, high=100, unit="%")
    """Share of busy readings slowed by hardware or a power brake that is critical."""
    deficit_warning: float | None = parameter(7.0, above=0, high=100, unit="%")
    """A clock lower than that of the model's other GPUs by this share is a warning."""
    deficit_critical: float | None = parameter(15.0, above=0, high=100, unit="%")
    """A clock lower than that of the model's other GPUs by this share is critical."""
    busy_pct: float = parameter(50.0, low=0, high=100, unit="%")
    """Readings below this utilization are ignored, because an idle GPU lowers its clock on purpose."""
    min_busy_s: float = parameter(60.0, low=0, unit="s")
    """A GPU that was busy for a shorter time is not judged."""
    memory_c: float = parameter(95.0, above=0, unit="degrees C")
    """GPU memory at this temperature is a warning."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each busy GPU by itself, then against other GPUs of its model."""
        util = window.series("gpu.util")
        gpus = {}
        for place in ours(util, owners(window)):
            series = util[place]
            busy = series.value >= self.busy_pct
            seconds = float(busy.sum()) * window.job.interval_ms / 1e3
            if seconds < self.min_busy_s:
                text = f"{place[1]} was not busy long enough"
                window.insufficient("patience_not_reached", text, have=seconds, need=self.min_busy_s)
                continue
            at = series.time[busy]
            reasons = _values(window, "gpu.throttle_reasons", place, at)
            clock = _values(window, "gpu.clock_sm", place, at)
            if not len(reasons) and not len(clock):
                continue
            gpus[place] = _Gpu(
                int(busy.sum()),
                _share(reasons, _SOFT_HEAT | _HARD_HEAT),
                _share(reasons, _HARDWARE),
                _share(reasons, _BRAKE),
                _share(reasons, _CAP),
                median(clock) if len(clock) else None,
            )
            window.judged(int(busy.sum()))
        if not gpus and window.lack is None:
            window.insufficient("no_input", "neither clocks nor why they are lowered were read of a busy GPU")
        for place, gpu in gpus.items():
            yield from self._judge(window, place, gpu, _deficit(window, place, gpus))
            yield from self._hot(window, place)

    def _judge(self, window: Window, place: Place, gpu: _Gpu, deficit: float | None) -> Issues:
        strict = gpu.heat if gpu.heat > 0 else -1.0
        levels = {
            "heat": grade(strict, info=self.info, warning=self.warning, critical=self.critical),
            "hardware": grade(
                max(gpu.slow, gpu.brake), warning=self.hardware_warning, critical=self.hardware_critical
            ),
            "slower": grade(deficit or 0.0, warning=self.deficit_warning, critical=self.deficit_critical),
        }
        severity = worst(*levels.values())
        if severity is None:
            return
        code = next(name for name, level in levels.items() if level == severity)
        slow = max(gpu.slow, gpu.brake)
        texts = {
            "heat": f"heat lowers the clock of {place[1]} in {gpu.heat:.1f} % of its busy time",
            "hardware": f"hardware slows {place[1]} in {slow:.1f} % of its busy time",
            "slower": f"{place[1]} runs {deficit or 0:.0f} % slower than other GPUs of its model",
        }
        yield self._issue(
            window,
            place,
            code,
            texts[code],
            severity=severity,
            evidence={
                "heat_pct": gpu.heat,
                "hardware_pct": gpu.slow,
                "brake_pct": gpu.brake,
                "power_cap_pct": gpu.cap,
                "clock_mhz": gpu.clock,
                "deficit_pct": deficit,
                "busy_readings": gpu.readings,
            },
        )

    def _hot(self, window: Window, place: Place) -> Issues:
        since = window.end - round(_HOT_S * 1e9)
        temp = window.series("gpu.temp", since=since).get(place)
        limit = window.series("gpu.temp_slowdown").get(place)
        if temp is not None and limit is not None and len(temp.value) > 1 and limit.value[-1] > 0:
            long = int(temp.time[-1]) - int(temp.time[0]) >= 0.9e9 * _HOT_S
            if long and temp.value.min() >= limit.value[-1] - 3:
                degrees = float(temp.value.min())
                text = f"{place[1]} is at {degrees:.0f} °C; it slows down at {limit.value[-1]:.0f} °C"
                yield self._issue(window, place, "hot", text, evidence={"temp_c": degrees})
        memory = window.series("gpu.mem_temp", since=since).get(place)
        if memory is not None and float(np.median(memory.value)) >= self.memory_c:
            degrees = float(np.median(memory.value))
            text = f"the memory of {place[1]} is at {degrees:.0f} °C"
            yield self._issue(window, place, "hot_memory", text, evidence={"memory_temp_c": degrees})

    def _issue(self, window: Window, place: Place, code: str, text: str, **about: Any) -> Issue:
        return self.issue(text, code=code, node=place[0], device=place[1], **window.span, **about)


def _values(window: Window, metric: str, place: Place, at: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return a metric's readings at these moments."""
    series = window.series(metric).get(place)
    if series is None:
        return np.empty(0)
    found = matrix({place: series}, place[0], at)[0]
    return np.asarray(found[np.isfinite(found)])


def _share(reasons: NDArray[np.float64], bits: int) -> float:
    known = reasons[(reasons >= 0) & (reasons < 2**53)].astype(np.int64)
    return 100.0 * float(((known & bits) != 0).mean()) if len(known) else 0.0


def _deficit(window: Window, place: Place, gpus: dict[Place, _Gpu]) -> float | None:
    """Return by how many percent a GPU is slower than the median of the other GPUs of its model."""
    own, model = gpus[place].clock, window.job.gpu_model(*place)
    others = [
        gpu.clock
        for other, gpu in gpus.items()
        if other != place and gpu.clock is not None and window.job.gpu_model(*other) == model
    ]
    if own is None or not others or np.median(others) <= 0:
        return None
    return 100.0 * (1.0 - own / float(np.median(others)))
