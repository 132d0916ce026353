"""NVIDIA GPUs, through the driver's management library."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from holter.agent.collectors import Collector, Machine, Reading, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from holter.store.document_types import GpuEntry

_PCIE_NS = 1_000_000_000
"""One PCIe reading takes the driver 20 ms, so it is taken once a second, of one GPU in turn."""
_HEALTH_NS = 5_000_000_000
"""What rarely changes is asked for this often."""
_KB = 1024


class Nvidia(Collector):
    """All GPUs the job may use. What a GPU or a driver does not give is left out and named in `missing`."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        try:
            import pynvml
        except ImportError as error:
            raise Unavailable("nvidia-ml-py is not installed") from error
        self._nvml: Any = pynvml
        try:
            pynvml.nvmlInit()
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            raise Unavailable(f"no NVIDIA driver answers: {error}") from error
        everyone = [(f"gpu{index}", pynvml.nvmlDeviceGetHandleByIndex(index)) for index in range(count)]
        self._gpus = self._visible(everyone)
        if not self._gpus:
            raise Unavailable(
                "the driver has no GPU" if count == 0 else "CUDA_VISIBLE_DEVICES hides every GPU"
            )
        self._given_up: set[tuple[str, str]] = set()
        self._pcie_at = -_PCIE_NS
        self._pcie_next = 0
        self._health_at = -_HEALTH_NS
        self._events: dict[str, Any] = {}

    def facts(self) -> list[GpuEntry]:
        """Return name and memory of each GPU, for the facts of the node."""
        found: list[GpuEntry] = []
        for device, handle in self._gpus:
            memory = self._ask(device, "gpu.mem.used", self._nvml.nvmlDeviceGetMemoryInfo, handle)
            size = None if memory is None else int(memory.total)
            name = _text(self._nvml.nvmlDeviceGetName(handle))
            found.append({"device": device, "name": name, "memory_bytes": size})
        return found

    def read(self, now: int) -> Iterator[Reading]:
        """Ask the driver for everything, GPU by GPU."""
        nvml = self._nvml
        for device, handle in self._gpus:
            rates = self._ask(device, "gpu.util", nvml.nvmlDeviceGetUtilizationRates, handle)
            if rates is not None:
                yield device, "gpu.util", float(rates.gpu)
                yield device, "gpu.mem.busy", float(rates.memory)
            memory = self._ask(device, "gpu.mem.used", nvml.nvmlDeviceGetMemoryInfo, handle)
            if memory is not None and memory.total:
                yield device, "gpu.mem.used", float(memory.used)
                yield device, "gpu.mem.used_pct", 100.0 * memory.used / memory.total
            yield from self._numbers(device, handle)
        if now - self._pcie_at >= _PCIE_NS:
            self._pcie_at = now
            yield from self._pcie()
        if now - self._health_at >= _HEALTH_NS:
            self._health_at = now
            yield from self._health()
            yield from self._owners()

    def _numbers(self, device: str, handle: Any) -> Iterator[Reading]:
        nvml = self._nvml
        reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None)
        yield from self._answers(
            device,
            {
                "gpu.temp": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
                "gpu.power": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
                "gpu.power_limit": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
                "gpu.clock_sm": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
                "gpu.clock_sm_max": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
                "gpu.throttle_reasons": lambda: reasons(handle) if reasons else None,
                "gpu.ecc_uncorrected": lambda: nvml.nvmlDeviceGetTotalEccErrors(
                    handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
                ),
            },
        )

    def _pcie(self) -> Iterator[Reading]:
        nvml = self._nvml
        device, handle = self._gpus[self._pcie_next % len(self._gpus)]
        self._pcie_next += 1
        ask = nvml.nvmlDeviceGetPcieThroughput
        yield from self._answers(
            device,
            {
                "gpu.pcie_rx": lambda: ask(handle, nvml.NVML_PCIE_UTIL_RX_BYTES) * _KB,
                "gpu.pcie_tx": lambda: ask(handle, nvml.NVML_PCIE_UTIL_TX_BYTES) * _KB,
            },
        )

    def _health(self) -> Iterator[Reading]:
        nvml = self._nvml
        slow = nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
        for device, handle in list(self._gpus):
            yield from self._answers(
                device,
                {
                    "gpu.temp_slowdown": partial(nvml.nvmlDeviceGetTemperatureThreshold, handle, slow),
                    "gpu.mem_temp": partial(self._field, handle, nvml.NVML_FI_DEV_MEMORY_TEMP),
                    "gpu.pcie_replays": partial(nvml.nvmlDeviceGetPcieReplayCounter, handle),
                    "gpu.pcie_gen": partial(nvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
                    "gpu.pcie_gen_max": partial(nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
                    "gpu.pcie_width": partial(nvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
                    "gpu.pcie_width_max": partial(nvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
                    "gpu.xid": partial(self._xid, device, handle),
                },
            )
            rows = self._ask(device, "gpu.remap_pending", nvml.nvmlDeviceGetRemappedRows, handle)
            if rows is not None:
                yield device, "gpu.remap_pending", float(rows[2])
                yield device, "gpu.remap_failed", float(rows[3])

    def _answers(self, device: str, asked: Mapping[str, Callable[[], Any]]) -> Iterator[Reading]:
        """Yield the values that the driver gives."""
        for metric, ask in asked.items():
            if (value := self._ask(device, metric, ask)) is not None:
                yield device, metric, float(value)

    def _field(self, handle: Any, field: int) -> int:
        value = self._nvml.nvmlDeviceGetFieldValues(handle, [field])[0]
        if value.nvmlReturn != self._nvml.NVML_SUCCESS:
            raise self._nvml.NVMLError(value.nvmlReturn)
        return int(value.value.uiVal)

    def _xid(self, device: str, handle: Any) -> int | None:
        """Return the oldest error that was not reported yet. Each GPU has a set of events of its own."""
        nvml = self._nvml
        if device not in self._events:
            events = nvml.nvmlEventSetCreate()
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
            self._events[device] = events
        try:
            return int(nvml.nvmlEventSetWait_v2(self._events[device], 0).eventData)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_TIMEOUT:
                return None
            raise

    def _owners(self) -> Iterator[Reading]:
        """Count the job's trainers on each GPU, where the driver counts processes as we do."""
        machine = self.machine
        mine = {pid for pid, role in machine.watched.roles.items() if role == "trainer"}
        pids: dict[str, set[int]] = {}
        for device, handle in self._gpus:
            found = self._ask(device, "gpu.procs", self._nvml.nvmlDeviceGetComputeRunningProcesses, handle)
            if found is not None:
                pids[device] = {int(process.pid) for process in found}
        everyone = set().union(*pids.values())
        # In a container the driver tells the numbers of the machine outside, or none.
        if mine and any((machine.proc / str(pid)).exists() for pid in everyone):
            for device, there in pids.items():
                yield device, "gpu.procs", float(len(there & mine))

    def _ask(self, device: str, metric: str, question: Callable[..., Any], *arguments: object) -> Any:
        """Ask for one value; one that this GPU or driver can never give is not asked for again."""
        nvml = self._nvml
        if (device, metric) in self._given_up:
            return None
        never = (
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            nvml.NVML_ERROR_NO_PERMISSION,
        )
        try:
            return question(*arguments)
        except nvml.NVMLError as error:
            if error.value in never:
                self._given_up.add((device, metric))
                self.missing.append((f"{metric} of {device}", str(error)))
                return None
            if error.value == nvml.NVML_ERROR_GPU_IS_LOST:
                self._gpus = [gpu for gpu in self._gpus if gpu[0] != device]
                self.missing.append((device, str(error)))
            return None

    def _visible(self, everyone: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """Keep the GPUs that CUDA_VISIBLE_DEVICES lets the job use; it holds numbers or UUIDs."""
        wanted = self.machine.environment.get("CUDA_VISIBLE_DEVICES")
        if wanted is None:
            return everyone
        kept = []
        for word in (word.strip() for word in wanted.split(",")):
            if word.isdigit() and int(word) < len(everyone):
                kept.append(everyone[int(word)])
            elif word.startswith(("GPU-", "MIG-")):
                kept += [
                    gpu for gpu in everyone if _text(self._nvml.nvmlDeviceGetUUID(gpu[1])).startswith(word)
                ]
            else:  # CUDA ignores what follows the first word it does not understand
                break
        return kept


def _text(value: bytes | str) -> str:
    """Return a text that older bindings give as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)
