"""AMD GPUs, through ROCm's `amdsmi` where that is installed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from holter.agent.collectors import Collector, Machine, Reading, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MIB = 1 << 20


class Amd(Collector):
    """Utilization, memory, temperature, power and clock of each GPU."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        try:
            import amdsmi
        except Exception as error:
            # Without ROCm its import fails in ways of its own (KeyError, OSError).
            raise Unavailable("amdsmi, which ROCm brings, is not installed") from error
        self._smi: Any = amdsmi
        try:
            amdsmi.amdsmi_init()
            handles = amdsmi.amdsmi_get_processor_handles()
        except Exception as error:
            raise Unavailable(f"amdsmi does not answer: {error}") from error
        self._gpus = [(f"gpu{index}", handle) for index, handle in enumerate(handles)]
        if not self._gpus:
            raise Unavailable("amdsmi finds no GPU")
        self._given_up: set[tuple[str, str]] = set()

    def facts(self) -> list[dict[str, Any]]:
        """Return name and memory of each GPU, for the facts of the node."""
        found = []
        for device, handle in self._gpus:
            asic = self._ask(device, "name", partial(self._smi.amdsmi_get_gpu_asic_info, handle)) or {}
            memory = (
                self._ask(device, "gpu.mem.used", partial(self._smi.amdsmi_get_gpu_vram_usage, handle)) or {}
            )
            total = _number(memory, "vram_total")
            name = str(asic.get("market_name", "AMD GPU"))
            found.append(
                {"device": device, "name": name, "memory_bytes": None if total is None else int(total * _MIB)}
            )
        return found

    def read(self, now: int) -> Iterator[Reading]:
        """Ask for everything, GPU by GPU."""
        smi = self._smi
        for device, handle in self._gpus:
            activity = self._ask(device, "gpu.util", partial(smi.amdsmi_get_gpu_activity, handle)) or {}
            memory = self._ask(device, "gpu.mem.used", partial(smi.amdsmi_get_gpu_vram_usage, handle)) or {}
            power = self._ask(device, "gpu.power", partial(smi.amdsmi_get_power_info, handle)) or {}
            clock = (
                self._ask(
                    device, "gpu.clock_sm", partial(smi.amdsmi_get_clock_info, handle, smi.AmdSmiClkType.GFX)
                )
                or {}
            )
            temperature = self._ask(
                device,
                "gpu.temp",
                partial(
                    smi.amdsmi_get_temp_metric,
                    handle,
                    smi.AmdSmiTemperatureType.EDGE,
                    smi.AmdSmiTemperatureMetric.CURRENT,
                ),
            )
            used, total = _number(memory, "vram_used"), _number(memory, "vram_total")
            limit = _number(power, "power_limit")
            readings: dict[str, float | None] = {
                "gpu.util": _number(activity, "gfx_activity"),
                "gpu.mem.busy": _number(activity, "umc_activity"),
                "gpu.mem.used": None if used is None else used * _MIB,
                "gpu.mem.used_pct": None if used is None or not total else 100.0 * used / total,
                "gpu.power": _number(power, "average_socket_power", "current_socket_power"),
                # Some versions give this one in microwatts.
                "gpu.power_limit": None if limit is None else limit / 1e6 if limit > 1e5 else limit,
                "gpu.clock_sm": _number(clock, "clk", "cur_clk"),
                "gpu.clock_sm_max": _number(clock, "max_clk"),
                "gpu.temp": _number({"": temperature}, ""),
            }
            for metric, value in readings.items():
                if value is not None:
                    yield device, metric, value

    def _ask(self, device: str, metric: str, question: Callable[[], Any]) -> Any:
        """Ask for one thing; what fails once is not asked for again."""
        if (device, metric) in self._given_up:
            return None
        try:
            return question()
        except Exception as error:
            self._given_up.add((device, metric))
            self.missing.append((f"{metric} of {device}", f"{type(error).__name__}: {error}"))
            return None


def _number(facts: dict[str, Any], *names: str) -> float | None:
    """Return the first of `names` that is a number; amdsmi writes "N/A" for what it does not know."""
    for name in names:
        value = facts.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None
