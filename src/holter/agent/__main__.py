"""`python -m holter.agent --attach PID --spool DIR`: the agent of a process that records itself."""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

import tomllib

from holter.agent.machine.node import node_name
from holter.agent.sampling import check_interval
from holter.agent.supervision.attach import NoProcess, attach
from holter.schema.metrics import DEFAULT_INTERVAL_MS
from holter.store import job

USAGE = 64


def main(arguments: list[str] | None = None) -> int:
    """Record until the process ends; return 0, or 64 with a message for invalid arguments."""
    parser = argparse.ArgumentParser(prog="python -m holter.agent", description=__doc__)
    parser.add_argument("--store", help="URL of the store; by default HOLTER_STORE, else ./holter-jobs")
    parser.add_argument("--job", help="name of the job; created when it does not exist")
    parser.add_argument("--attach", type=int, required=True, metavar="PID", help="process to record")
    parser.add_argument("--spool", type=Path, required=True, help="directory in which it writes its records")
    parser.add_argument("--node", default=node_name(), help="name of this machine in the store")
    parser.add_argument("--interval", type=int, help="sampling interval in milliseconds")
    parser.add_argument("--config", type=Path, help="TOML file with the options of `holter run`")
    options = parser.parse_args(arguments)
    try:
        interval = check_interval(_interval(options))
        if not options.spool.is_dir():
            raise ValueError(f"spool {str(options.spool)!r} is not a directory")
        folder = _folder(options, interval)
        attach(folder, options.attach, options.spool, node=options.node, interval_ms=interval)
    except (ValueError, NoProcess, OSError) as error:
        print(f"holter: {error}", file=sys.stderr)
        return USAGE
    return 0


def _interval(options: argparse.Namespace) -> int:
    """Return the interval that is asked for, in ms: by option, else by the file, else the default."""
    if options.interval is not None:
        return int(options.interval)
    if options.config is None:
        return DEFAULT_INTERVAL_MS
    with open(options.config, "rb") as file:
        given = tomllib.load(file).get("interval", DEFAULT_INTERVAL_MS)
    if isinstance(given, int):
        return given
    match = re.fullmatch(r"(\d+)\s*(ms|s|min)", str(given).strip())
    if match is None:
        raise ValueError(f"interval {given!r} in {options.config}: write it as 500ms, 1s or 1min")
    return int(match[1]) * {"ms": 1, "s": 1000, "min": 60_000}[match[2]]


def _folder(options: argparse.Namespace, interval_ms: int) -> job.JobFolder:
    """Return the job: the one of this name while it is in progress, else a new one."""
    store = job.store_url(options.store)
    command = _command(options.attach)
    if options.job is not None:
        try:
            found = job.find(store, options.job)
        except job.JobNotFound:
            pass
        else:
            if found.manifest().get("status") == "InProgress" and not found.nodes():
                return found
    name = options.job or _name(command)
    return job.create(store, name, command=command, interval_ms=interval_ms, rules=[], now_ns=time.time_ns())


def _command(pid: int) -> list[str]:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError as error:
        raise NoProcess(f"there is no process {pid}") from error
    return [word.decode(errors="replace") for word in words]


def _name(command: list[str]) -> str:
    """Make a name from the script's name and the time."""
    script = next((Path(word).stem for word in command[1:] if word.endswith((".py", ".ipynb"))), "")
    script = re.sub(r"[^A-Za-z0-9._]+", "-", script or "python").strip("-_.") or "python"
    return f"{script}-{time.strftime('%Y%m%d-%H%M%S')}"


if __name__ == "__main__":
    raise SystemExit(main())
