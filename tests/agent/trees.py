"""Write small trees as the kernel shows them under /proc and /sys."""

from __future__ import annotations

from pathlib import Path

from holter.agent.collectors import Collector


def write(root: Path, files: dict[str, str | int]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n" if isinstance(content, int) else content)
    return root


def stat_of(pid: int, ppid: int, *, name="python", state="S", ticks=0, started=100, pages=10) -> str:
    before = f"{pid} ({name}) {state} {ppid} {pid} {pid} 0 -1 4194304 0 0 0 0"
    return f"{before} {ticks} 0 0 0 20 0 1 0 {started} 100000 {pages} 1844674407 1 1 0\n"


MEMINFO = """\
MemTotal:       16000000 kB
MemFree:         2000000 kB
MemAvailable:    6000000 kB
Cached:          3000000 kB
SwapTotal:       1000000 kB
SwapFree:         750000 kB
"""

DISKSTATS = """\
   7       0 loop0 5 0 50 0 0 0 0 0 0 0 0
 259       0 nvme0n1 {reads} 0 {sectors} {ms} 200 0 4000 0 0 0 0
 259       1 nvme0n1p1 {reads} 0 {sectors} 0 200 0 4000 0 0 0 0
 253       0 dm-0 {reads} 0 {sectors} 0 200 0 4000 0 0 0 0
   8       0 sda 10 0 100 0 20 0 200 0 0 0 0
"""

NET = """\
Inter-|   Receive                                                |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier
    lo: 9999 1 0 0 0 0 0 0 9999 1 0 0 0 0 0 0
  eth0: {rx} 1 0 0 0 0 0 0 {tx} 1 0 0 0 0 0 0
docker0: 500 1 0 0 0 0 0 0 700 1 0 0 0 0 0 0
"""


def cgroup2(sys: Path, **files: str | int) -> Path:
    """A group `/kubepods/job` of version 2, whose parent has a memory limit too."""
    base = {
        "cgroup.controllers": "cpu memory\n",
        "kubepods/memory.max": 8 << 30,
        "kubepods/cpu.max": "max 100000\n",
        "kubepods/job/memory.max": "max\n",
        "kubepods/memory.current": 5 << 30,
        "kubepods/memory.stat": f"anon 1\nfile {3 << 30}\nshmem {1 << 30}\n",
        "kubepods/memory.peak": 7 << 30,
        "kubepods/memory.events": "low 0\noom 0\noom_kill 9\n",
        "kubepods/job/memory.events": "low 0\noom 0\noom_kill 2\n",
        "kubepods/job/cpu.max": "150000 100000\n",
        "kubepods/job/cpu.stat": "usage_usec 3000000\nnr_periods 100\nnr_throttled 25\nthrottled_usec 7\n",
    }
    return write(sys / "fs/cgroup", {**base, **files})


def cgroup1(sys: Path, *, group: str = "docker/abc") -> Path:
    """A group of version 1; in a container it is mounted at the root, whatever its path says."""
    at = f"{group}/" if group else ""
    return write(
        sys / "fs/cgroup",
        {
            f"memory/{at}memory.limit_in_bytes": 4 << 30,
            f"memory/{at}memory.usage_in_bytes": 3 << 30,
            f"memory/{at}memory.stat": f"cache 5\ntotal_cache {2 << 30}\ntotal_shmem {1 << 30}\n",
            f"memory/{at}memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
            f"memory/{at}memory.max_usage_in_bytes": 4 << 30,
            "memory/memory.limit_in_bytes": 9223372036854771712,
            f"cpu,cpuacct/{at}cpu.cfs_quota_us": 200000,
            f"cpu,cpuacct/{at}cpu.cfs_period_us": 100000,
            f"cpu,cpuacct/{at}cpu.stat": "nr_periods 10\nnr_throttled 5\nthrottled_time 99\n",
            f"cpu,cpuacct/{at}cpuacct.usage": 123456789,
        },
    )


def values(collector: Collector, now: int) -> dict:
    return {(device, metric): value for device, metric, value in collector.read(now)}


def cpu_stat(*cores: tuple[int, int, int]) -> str:
    """Lines of /proc/stat from (busy, idle, waiting) ticks; guest time is contained in user time."""
    lines = [f"cpu{i} {busy} 0 0 {idle} {wait} 0 0 0 {busy} 0" for i, (busy, idle, wait) in enumerate(cores)]
    return "cpu  1 2 3 4 5 6 7 8 9 10\n" + "\n".join(lines) + "\nintr 5\n"
