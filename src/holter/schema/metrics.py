"""Every system metric: name, unit, kind (gauge or rate) and meaning."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """One system metric. A rate is computed between two readings, so its first value is absent."""

    name: str
    unit: str
    meaning: str
    rate: bool = False

    @property
    def per_device(self) -> bool:
        """Whether each device, or each role of processes, has readings of its own."""
        return self.name.startswith(("cpu.core.", "proc.", "thread.", "other.", "gpu."))


_ALL = (
    Metric("cpu.util", "%", "Busy share of all cores the job may use, mean.", rate=True),
    Metric(
        "cpu.iowait", "%", "Share of time cores were idle with input or output outstanding, mean.", rate=True
    ),
    Metric("cpu.core.util", "%", "Busy share of one core.", rate=True),
    Metric(
        "cpu.core.iowait", "%", "Share of time one core was idle with input or output outstanding.", rate=True
    ),
    *(
        Metric(f"cpu.core.{name}", "1/s", f"{what} of one core, of all processes.", rate=True)
        for name, what in (
            ("cycles", "Clock cycles in which it was not idle"),
            ("instructions", "Instructions that were completed"),
            ("ref_cycles", "Cycles of a clock of constant speed in which it was not idle"),
            ("cache_misses", "Misses of the last cache"),
            ("itlb_misses", "Instruction fetches whose page had to be looked up"),
        )
    ),
    Metric("cpu.load1", "processes", "Load average over one minute."),
    Metric(
        "mem.used_pct", "%", "Host memory in use, of the node's or the cgroup's limit, whichever is smaller."
    ),
    Metric("mem.used", "bytes", "Host memory in use, page cache excluded."),
    Metric("mem.available", "bytes", "Host memory that can be had without swapping."),
    Metric("mem.swap_used", "bytes", "Swap in use."),
    Metric("mem.swap_in", "bytes/s", "Memory read back from swap.", rate=True),
    Metric("shm.used", "bytes", "Space used on /dev/shm."),
    Metric("disk.iops", "operations/s", "Disk operations, read and write.", rate=True),
    Metric("disk.read_bytes", "bytes/s", "Disk read rate.", rate=True),
    Metric("disk.write_bytes", "bytes/s", "Disk write rate.", rate=True),
    Metric("disk.await", "ms", "Mean time a disk operation took, queueing included.", rate=True),
    Metric("disk.free_pct", "%", "Free space of the file system that holds the store."),
    Metric("disk.free", "bytes", "Free space of the file system that holds the store."),
    Metric("net.rx", "bytes/s", "Network, received, loopback excluded.", rate=True),
    Metric("net.tx", "bytes/s", "Network, sent, loopback excluded.", rate=True),
    Metric(
        "net.link_speed",
        "bytes/s",
        "What the interfaces that count can carry one way; absent where an interface does not say.",
    ),
    Metric("net.segments", "segments/s", "TCP segments sent.", rate=True),
    Metric("net.retrans", "segments/s", "TCP segments sent once more, as the first got lost.", rate=True),
    Metric("psi.cpu", "%", "Share of the last 10 s in which some task waited for a CPU."),
    Metric("psi.io", "%", "Share of the last 10 s in which some task waited for input or output."),
    Metric("psi.mem", "%", "Share of the last 10 s in which some task waited for memory."),
    Metric(
        "cgroup.throttled_pct",
        "%",
        "Share of scheduling periods in which the cgroup's CPU quota ran out.",
        rate=True,
    ),
    Metric("proc.cpu", "% of a core", "CPU used by the job's processes with this role (device).", rate=True),
    Metric(
        "proc.cpu.delay",
        "%",
        "Share of the time that the training threads (else the main threads) of the processes with this role "
        "(device) are ready to run without a core.",
        rate=True,
    ),
    Metric(
        "proc.runnable",
        "threads",
        "Threads of the processes with this role (device) that run or wait for a core, mean.",
        rate=True,
    ),
    *(
        Metric(f"thread.{name}", unit, f"{what} of a rank's training thread (device).", rate=True)
        for name, unit, what in (
            ("running", "%", "Share of the time on a core"),
            ("waiting", "%", "Share of the time ready to run without a core"),
            ("io", "%", "Share of the time in a wait for a disk or for swapped memory"),
            ("major_faults", "1/s", "Page faults that read from a disk"),
            ("switches", "1/s", "Times that it left its core to wait"),
            ("preemptions", "1/s", "Times that the scheduler took its core away"),
        )
    ),
    Metric(
        "thread.blocked",
        "%",
        "100 if a rank's training thread was blocked at the reading, 0 if it ran or was ready to; by rank and "
        "phase of the step (device).",
    ),
    Metric(
        "thread.stopped",
        "%",
        "100 if a rank's training thread (device) was stopped at the reading, as SIGSTOP and debuggers do.",
    ),
    Metric(
        "other.cpu",
        "% of a core",
        "CPU used by programs outside of the job, by name and user (device); the largest, from 20 % on.",
        rate=True,
    ),
    Metric(
        "proc.rss",
        "bytes",
        "Resident memory of the job's processes with this role (device): trainer, worker, other.",
    ),
    Metric("proc.private", "bytes", "Memory that only this role's processes hold: resident less shared."),
    Metric("proc.count", "processes", "The job's processes with this role (device)."),
    Metric("proc.threads", "threads", "Threads of the job's processes with this role (device)."),
    Metric(
        "proc.files",
        "files",
        "Open files of the job's processes with this role (device), pipes and sockets included; every two seconds.",
    ),
    Metric("gpu.util", "%", "Share of the sampling period in which at least one kernel ran."),
    Metric("gpu.mem.busy", "%", "Share of the sampling period in which the memory controller was busy."),
    Metric("gpu.mem.used_pct", "%", "GPU memory in use."),
    Metric("gpu.mem.used", "bytes", "GPU memory in use."),
    Metric("gpu.temp", "degrees C", "GPU temperature."),
    Metric("gpu.power", "W", "GPU power draw."),
    Metric("gpu.power_limit", "W", "Enforced GPU power limit."),
    Metric("gpu.clock_sm", "MHz", "Clock of the streaming multiprocessors."),
    Metric("gpu.clock_sm_max", "MHz", "Highest clock of the streaming multiprocessors."),
    Metric("gpu.throttle_reasons", "bit mask", "Why clocks are lowered; NVML's clock event reasons."),
    Metric("gpu.pcie_rx", "bytes/s", "PCIe, host to GPU."),
    Metric("gpu.pcie_tx", "bytes/s", "PCIe, GPU to host."),
    Metric("gpu.ecc_uncorrected", "errors", "Uncorrected memory errors since the driver was loaded."),
    Metric(
        "gpu.procs",
        "processes",
        "The job's trainers that hold memory on the GPU; absent where the driver's process numbers are unknown, as in a container of its own.",
    ),
    Metric(
        "gpu.sm_active",
        "%",
        "Share of time, over all multiprocessors, in which one had work; of DCGM, holter's agent does not read it.",
    ),
    Metric(
        "gpu.tensor_active",
        "%",
        "Share of time in which tensor cores worked; of DCGM, holter's agent does not read it.",
    ),
    Metric("gpu.mem_temp", "degrees C", "Temperature of the GPU's memory."),
    Metric("gpu.temp_slowdown", "degrees C", "Temperature at which the GPU slows down."),
    Metric("gpu.xid", "code", "An error the driver reported: its Xid, at the time it came."),
    Metric("gpu.remap_pending", "0 or 1", "Rows of memory are to be replaced at the next reset."),
    Metric("gpu.remap_failed", "0 or 1", "A row of memory could not be replaced."),
    Metric("gpu.pcie_replays", "replays", "PCIe packets sent once more, since boot."),
    Metric("gpu.pcie_gen", "generation", "Generation at which the PCIe link runs."),
    Metric("gpu.pcie_gen_max", "generation", "Highest that GPU and slot allow."),
    Metric("gpu.pcie_width", "lanes", "Lanes of the PCIe link in use."),
    Metric("gpu.pcie_width_max", "lanes", "Most that GPU and slot allow."),
    Metric(
        "gpu.nvlink_errors",
        "errors",
        "Errors of the GPU's NVLinks, replays included; of DCGM, holter's agent does not read it.",
    ),
    Metric("agent.cpu", "% of a core", "CPU used by holter's own agent and evaluator.", rate=True),
    Metric("agent.rss", "bytes", "Resident memory of holter's agent."),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}

INTERVALS_MS = (100, 200, 500, 1000, 5000, 60000)
"""Sampling intervals that are allowed; 500 is the default."""

DEFAULT_INTERVAL_MS = 500
