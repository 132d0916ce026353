"""`holter doctor`: list what holter can and cannot measure on this machine, and why."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from holter.analysis.verdict.evidence import counted
from holter.cli import options, output
from holter.views.wording import size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ABOUT = (
    "List what holter can and cannot measure on this machine, and why. Changes nothing; the exit code is 0."
)
EXAMPLES = """  holter doctor
  holter doctor --python .venv/bin/python --store s3://bucket/jobs
  holter doctor --json"""

_COLORS = {"yes": "green", "partly": "yellow", "no": "red", "none": "bright_black"}
_COLLECTORS = {
    "cpu": "CPU load",
    "memory": "memory use",
    "processes": "processes of the job",
    "pressure": "pressure (PSI)",
    "cgroup": "CPU throttling",
    "counters": "CPU counters",
    "nvidia": "NVIDIA GPUs",
    "amd": "AMD GPUs",
    "overhead": "holter's own cost",
}
_SMALL_SHARED_MEMORY = 1 << 30
_NEEDED_BYTES = 256 * 1024 * 1024


class Capability(NamedTuple):
    """One subject, measurable (`yes`), in part (`partly`), not (`no`), or absent on this machine (`none`)."""

    what: str
    state: str
    why: str


def main(words: list[str]) -> int:
    """Run `holter doctor`."""
    parser = options.Parser("doctor", ABOUT, EXAMPLES, "--store", "--json")
    parser.add_argument("--python", metavar="PATH", help="the training's Python; default: `python` on PATH")
    given = parser.read(words)
    from holter.store.job import store_url

    checks: list[Callable[[], Iterator[Capability]]] = [
        _holter,
        lambda: _training(given.python),
        lambda: _store(store_url(given.store)),
        _spool,
        _limits,
        _collectors,
        _python_samples,
    ]
    findings = [finding for check in checks for finding in _safely(check)]
    if given.json:
        output.write_json({"schema": 1, "findings": [finding._asdict() for finding in findings]})
    else:
        _print(findings)
    return 0


def _safely(check: Callable[[], Iterator[Capability]]) -> list[Capability]:
    try:
        return list(check())
    except Exception as error:
        name = getattr(check, "__name__", "check").strip("_<>")
        return [Capability(name, "no", f"{type(error).__name__}: {error}")]


def _holter() -> Iterator[Capability]:
    from holter import __version__

    yield Capability(
        "holter", "yes", f"{__version__} on Python {platform.python_version()}, {sys.executable}"
    )
    if sys.platform != "linux":
        yield Capability(
            "system", "partly", f"{sys.platform}: holter is made for Linux and reads most metrics from /proc"
        )


def _training(given: str | None) -> Iterator[Capability]:
    """Ask the training's Python, which may be another one than holter's."""
    python = given or shutil.which("python") or shutil.which("python3") or sys.executable
    program = (
        "import sys, json, importlib.util as u, importlib.metadata as m\n"
        "found = {'version': sys.version_info[:3], 'torch': u.find_spec('torch') and m.version('torch')}\n"
        f"sys.path.append({str(Path(__file__).parents[3])!r})\n"
        "try:\n"
        "    from holter.recorder.spool import hotpath\n"
        "    from holter.recorder.native import sums\n"
        "    found |= {'marks': hotpath.compiled(), 'sums': sums.compiled()}\n"
        "except Exception: pass\n"
        "print(json.dumps(found, default=bool))\n"
    )
    try:
        done = subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=20, check=True)
    except subprocess.CalledProcessError as error:
        yield Capability("training's Python", "no", f"{python}: {error.stderr.strip().splitlines()[-1:]}")
        return
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Capability("training's Python", "no", f"{python}: {error}")
        return
    found = json.loads(done.stdout)
    old = "" if found["version"] >= [3, 10] else "; the recorder needs 3.10 or newer"
    version = ".".join(map(str, found["version"]))
    yield Capability("training's Python", "no" if old else "yes", f"{version}, {python}{old}")
    if not old:
        for what, key, costly in (
            ("marks", "marks", "written in Python: correct, but costly for steps of about 1 ms"),
            ("sums of tensors", "sums", "computed by torch: correct, but costly when saved at every step"),
        ):
            text = "compiled" if found.get(key) else f"{costly}; see docs/explanation/cost.md"
            yield Capability(what, "yes" if found.get(key) else "partly", text)
    if found["torch"]:
        yield Capability("PyTorch", "yes", f"{found['torch']}: steps and their phases are recorded")
    else:
        missing = "has no torch: holter records the machine only; name another Python with --python"
        yield Capability("PyTorch", "none", f"{python} {missing}")


def _store(url: str) -> Iterator[Capability]:
    if "://" in url and not url.startswith("file://"):
        yield _object_store(url)
        return
    path = Path(url.removeprefix("file://")).absolute()
    there = next(folder for folder in (path, *path.parents) if folder.exists())
    yield _writable("store", there, str(url))


def _object_store(url: str) -> Capability:
    """Write and delete a small object in the store under a name that no job can have; count the jobs."""
    from holter.store.urls import place

    try:
        here = place(url)
        key = f".holter-doctor-{os.getpid()}"
        here.write(key, b"", new=True)
        here.delete(key)
        jobs = len(here.folders())
    except (OSError, ValueError) as error:
        return Capability("store", "no", str(error))
    return Capability("store", "yes", f"{url}: writable, {counted(jobs, 'job')}")


def _spool() -> Iterator[Capability]:
    folder = Path(tempfile.gettempdir())
    found = _writable("spool", folder, str(folder))
    kind = _file_system(folder)
    if found.state == "yes" and kind in ("nfs", "nfs4", "cifs", "fuse.sshfs", "9p", "lustre"):
        found = found._replace(
            state="partly", why=f"{found.why}; {kind} is slow to map: set TMPDIR to a local disk"
        )
    yield found


def _writable(what: str, folder: Path, name: str) -> Capability:
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".holter-"):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        return Capability(what, "no", f"{name}: {error.strerror}")
    if free < _NEEDED_BYTES:
        return Capability(what, "partly", f"{name}: only {size(free)} free")
    return Capability(what, "yes", f"{name}: writable, {size(free)} free")


def _file_system(folder: Path) -> str:
    import psutil

    mounts = [
        one for one in psutil.disk_partitions(all=True) if folder.resolve().is_relative_to(one.mountpoint)
    ]
    return str(max(mounts, key=lambda one: len(one.mountpoint)).fstype) if mounts else ""


def _limits() -> Iterator[Capability]:
    from holter.agent.machine.cgroups import ControlGroup

    cores = len(os.sched_getaffinity(0))
    group = ControlGroup.of()
    quota, limit = group.cpus(), group.memory_limit()
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limited = f"limited to {quota:g} by the cgroup" if quota else "no cgroup limit"
    yield Capability("CPUs", "yes", f"{counted(cores, 'core')}, {limited}")
    limited = f"limited to {size(limit)} by the cgroup" if limit else "no cgroup limit"
    yield Capability("memory", "yes", f"{size(total)}, {limited}")
    shared = Path("/dev/shm")  # noqa: S108
    if shared.is_dir():
        space = shutil.disk_usage(shared)
        small = space.total < _SMALL_SHARED_MEMORY
        why = f"{size(space.free)} of {size(space.total)} free"
        why += "; small for data-loader workers" if small else ""
        yield Capability(str(shared), "partly" if small else "yes", why)


def _collectors() -> Iterator[Capability]:
    """Try every collector as the agent does."""
    from holter.agent.machine.node import capabilities

    for name, why in capabilities():
        if "." in name:  # a single metric of a collector that has its own line
            continue
        absent = "none" if name in ("nvidia", "amd", "cgroup") else "no"
        yield Capability(_COLLECTORS.get(name, name), absent if why else "yes", why or "can be read")


def _python_samples() -> Iterator[Capability]:
    from holter.agent.python_samples import missing

    why = missing()
    yield Capability(
        "Python sampled", "no" if why else "yes", why or "from outside, by holter run --python-hz 5"
    )


def _print(findings: list[Capability]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        state = Text(finding.state, style=_COLORS[finding.state])
        table.add_row(finding.what, state, Text(output.clean(finding.why)))
    output.console(sys.stdout).print(table)
