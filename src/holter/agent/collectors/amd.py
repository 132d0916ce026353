"""AMD GPUs, through ROCm's `amdsmi` where that is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.agent.collectors import Collector, Machine, Reading, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from holter.store.document_types import GpuEntry

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

    def facts(self) -> list[GpuEntry]:
        """Return name and memory of each GPU, for the facts of the node."""
        found: list[GpuEntry] = []
        for device, handle in self._gpus:
            asic = self._ask(device, "name", self._smi.amdsmi_get_gpu_asic_info, handle)
            memory = self._ask(device, "gpu.mem.used", self._smi.amdsmi_get_gpu_vram_usage, handle)
            total = _number(memory, "vram_total")
            size = None if total is None else int(total * _MIB)
            name = str(asic.get("market_name", "AMD GPU"))
            found.append({"device": device, "name": name, "memory_bytes": size})
        return found

    def read(self, now: int) -> Iterator[Reading]:
        """Ask for everything, GPU by GPU."""
        smi = self._smi
        edge = smi.AmdSmiTemperatureType.EDGE, smi.AmdSmiTemperatureMetric.CURRENT
        gfx = smi.AmdSmiClkType.GFX
        for device, handle in self._gpus:
            activity = self._ask(device, "gpu.util", smi.amdsmi_get_gpu_activity, handle)
            memory = self._ask(device, "gpu.mem.used", smi.amdsmi_get_gpu_vram_usage, handle)
            power = self._ask(device, "gpu.power", smi.amdsmi_get_power_info, handle)
            clock = self._ask(device, "gpu.clock_sm", smi.amdsmi_get_clock_info, handle, gfx)
            temperature = self._ask(device, "gpu.temp", smi.amdsmi_get_temp_metric, handle, *edge)
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
            yield from ((device, metric, value) for metric, value in readings.items() if value is not None)

    def _ask(self, device: str, metric: str, question: Callable[..., Any], *arguments: object) -> Any:
        """Ask for one thing; a question that fails once is not asked again. Without an answer empty."""
        if (device, metric) in self._given_up:
            return {}
        try:
            return question(*arguments)
        except Exception as error:
            self._given_up.add((device, metric))
            self.missing.append((f"{metric} of {device}", f"{type(error).__name__}: {error}"))
            return {}


def _number(facts: Mapping[str, object], *names: str) -> float | None:
    """Return the first of `names` that is a number; amdsmi writes "N/A" for an unknown value."""
    values = (facts.get(name) for name in names)
    numbers = (value for value in values if isinstance(value, int | float) and not isinstance(value, bool))
    return next(map(float, numbers), None)
