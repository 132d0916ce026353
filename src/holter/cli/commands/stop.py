"""`holter stop JOB`: ask the agent of a running job to end it, SIGTERM first, SIGKILL after a grace."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from holter.cli import options
from holter.cli.options import Refusal
from holter.views.jobs import RUNNING, why_not_running
from holter.views.wording import duration

if TYPE_CHECKING:
    from holter.store.job import JobFolder

ABOUT = "Stop a running job gracefully: SIGTERM, and SIGKILL when it is still there after the grace."
EXAMPLES = """  holter stop latest
  holter stop train-20260131-120000 --grace 60 --no-wait"""

_POLL_S = 0.2
_SLACK_S = 30.0
"""How long after the grace the agent may take to write down the end."""


def main(words: list[str]) -> int:
    """Run `holter stop`."""
    parser = options.Parser("stop", ABOUT, EXAMPLES)
    options.add_job(parser)
    options.add_store(parser)
    parser.add_argument(
        "--grace",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="time between SIGTERM and SIGKILL; default 30",
    )
    parser.add_argument("--no-wait", action="store_true", help="return at once")
    given = parser.read(words)
    if not 0 <= given.grace <= 86_400:
        raise Refusal(f"--grace {given.grace:g} is out of range; valid: 0 to 86400 seconds")
    folder = running(options.find_job(given.job, given.store))
    tell(folder, {"stop": {"grace_s": given.grace}})
    if given.no_wait:
        print(f"told job {folder.name} to stop")
        return 0
    return _wait(folder, given.grace)


def running(folder: JobFolder) -> JobFolder:
    """Return the job when it runs; raises `Refusal` with code 5 saying what it is instead."""
    if folder.fault:
        raise Refusal(f"job {folder.name} cannot be read: {folder.fault}", Refusal.UNREADABLE)
    why = why_not_running(folder)
    if why is not None:
        raise Refusal(why, Refusal.NOT_RUNNING)
    return folder


def tell(folder: JobFolder, order: dict[str, object]) -> None:
    """Write an order for the job's agents, which look about once a second."""
    try:
        folder.order(**order)
    except OSError as error:
        raise Refusal(f"job {folder.name} cannot be told: {error}", Refusal.UNREADABLE) from None


def _wait(folder: JobFolder, grace_s: float) -> int:
    began, shown = time.monotonic(), -1
    live = sys.stderr.isatty()
    while (waited := time.monotonic() - began) < grace_s + _SLACK_S:
        manifest = folder.manifest()
        if manifest.get("status") not in RUNNING:
            print(f"job {folder.name}: {manifest.get('status')} after {duration(waited)}")
            return 0
        if live and int(waited) != shown:
            shown = int(waited)
            sys.stderr.write(
                f"\rholter: waiting for {folder.name} to end, {shown} s (SIGKILL after {grace_s:g} s) "
            )
            sys.stderr.flush()
        time.sleep(_POLL_S)
    if live:
        sys.stderr.write("\n")
    raise Refusal(
        f"job {folder.name} has not ended after {duration(waited)}; is its `holter run` still alive?",
        Refusal.NOT_RUNNING,
    )
