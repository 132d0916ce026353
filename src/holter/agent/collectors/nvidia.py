"""NVIDIA GPUs, through the driver's management library."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from holter.agent.collectors import Collector, Machine, Reading, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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

    def facts(self) -> list[dict[str, Any]]:
        """Return name and memory of each GPU, for the facts of the node."""
        found = []
        for device, handle in self._gpus:
            name = self._nvml.nvmlDeviceGetName(handle)
            text = name.decode() if isinstance(name, bytes) else str(name)
            memory = self._ask(device, "gpu.mem.used", partial(self._nvml.nvmlDeviceGetMemoryInfo, handle))
            found.append(
                {
                    "device": device,
                    "name": text,
                    "memory_bytes": None if memory is None else int(memory.total),
                }
            )
        return found

    def read(self, now: int) -> Iterator[Reading]:
        """Ask the driver for everything, GPU by GPU."""
        nvml = self._nvml
        for device, handle in self._gpus:
            rates = self._ask(device, "gpu.util", partial(nvml.nvmlDeviceGetUtilizationRates, handle))
            if rates is not None:
                yield device, "gpu.util", float(rates.gpu)
                yield device, "gpu.mem.busy", float(rates.memory)
            memory = self._ask(device, "gpu.mem.used", partial(nvml.nvmlDeviceGetMemoryInfo, handle))
            if memory is not None and memory.total:
                yield device, "gpu.mem.used", float(memory.used)
                yield device, "gpu.mem.used_pct", 100.0 * memory.used / memory.total
            for metric, value in self._numbers(device, handle):
                if value is not None:
                    yield device, metric, float(value)
        if now - self._pcie_at >= _PCIE_NS:
            self._pcie_at = now
            yield from self._pcie()
        if now - self._health_at >= _HEALTH_NS:
            self._health_at = now
            yield from self._health()
            yield from self._owners()

    def _numbers(self, device: str, handle: Any) -> Iterator[tuple[str, float | None]]:
        nvml = self._nvml
        reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None)
        asked: dict[str, Callable[[], Any]] = {
            "gpu.temp": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            "gpu.power": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            "gpu.power_limit": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
            "gpu.clock_sm": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            "gpu.clock_sm_max": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
            "gpu.throttle_reasons": lambda: reasons(handle) if reasons else None,
            "gpu.ecc_uncorrected": lambda: nvml.nvmlDeviceGetTotalEccErrors(
                handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
            ),
        }
        for metric, ask in asked.items():
            yield metric, self._ask(device, metric, ask)

    def _pcie(self) -> Iterator[Reading]:
        nvml = self._nvml
        device, handle = self._gpus[self._pcie_next % len(self._gpus)]
        self._pcie_next += 1
        for metric, counter in (
            ("gpu.pcie_rx", nvml.NVML_PCIE_UTIL_RX_BYTES),
            ("gpu.pcie_tx", nvml.NVML_PCIE_UTIL_TX_BYTES),
        ):
            value = self._ask(device, metric, partial(nvml.nvmlDeviceGetPcieThroughput, handle, counter))
            if value is not None:
                yield device, metric, float(value) * _KB

    def _health(self) -> Iterator[Reading]:
        nvml = self._nvml
        for device, handle in list(self._gpus):
            slow = nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
            asked: dict[str, Callable[[], Any]] = {
                "gpu.temp_slowdown": partial(nvml.nvmlDeviceGetTemperatureThreshold, handle, slow),
                "gpu.mem_temp": partial(self._field, handle, nvml.NVML_FI_DEV_MEMORY_TEMP),
                "gpu.pcie_replays": partial(nvml.nvmlDeviceGetPcieReplayCounter, handle),
                "gpu.pcie_gen": partial(nvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
                "gpu.pcie_gen_max": partial(nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
                "gpu.pcie_width": partial(nvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
                "gpu.pcie_width_max": partial(nvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
                "gpu.xid": partial(self._xid, device, handle),
            }
            for metric, ask in asked.items():
                if (value := self._ask(device, metric, ask)) is not None:
                    yield device, metric, float(value)
            ask = partial(nvml.nvmlDeviceGetRemappedRows, handle)
            if (rows := self._ask(device, "gpu.remap_pending", ask)) is not None:
                yield device, "gpu.remap_pending", float(rows[2])
                yield device, "gpu.remap_failed", float(rows[3])

    def _field(self, handle: Any, field: int) -> int:
        value = self._nvml.nvmlDeviceGetFieldValues(handle, [field])[0]
        if value.nvmlReturn != self._nvml.NVML_SUCCESS:
            raise self._nvml.NVMLError(value.nvmlReturn)
        return int(value.value.uiVal)

    def _xid(self, device: str, handle: Any) -> int | None:
        """Return the oldest error that was not told yet. A set of events of its own says which GPU it was."""
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
            ask = partial(self._nvml.nvmlDeviceGetComputeRunningProcesses, handle)
            found = self._ask(device, "gpu.procs", ask)
            if found is not None:
                pids[device] = {int(process.pid) for process in found}
        everyone = set().union(*pids.values())
        # In a container the driver tells the numbers of the machine outside, or none.
        if mine and any((machine.proc / str(pid)).exists() for pid in everyone):
            for device, there in pids.items():
                yield device, "gpu.procs", float(len(there & mine))

    def _ask(self, device: str, metric: str, question: Callable[[], Any]) -> Any:
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
            return question()
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
                kept += [gpu for gpu in everyone if self._uuid(gpu[1]).startswith(word)]
            else:  # CUDA ignores what follows the first word it does not understand
                break
        return kept

    def _uuid(self, handle: Any) -> str:
        uuid = self._nvml.nvmlDeviceGetUUID(handle)
        return uuid.decode() if isinstance(uuid, bytes) else str(uuid)
