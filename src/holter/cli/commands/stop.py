"""`holter stop JOB`: end a running job with SIGTERM, and with SIGKILL after a grace period."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from holter.cli import options, output
from holter.cli.job_lookup import running_job, send_order
from holter.cli.options import Refusal
from holter.views.jobs import RUNNING
from holter.views.wording import duration

if TYPE_CHECKING:
    from holter.store.job import JobFolder

ABOUT = "Stop a running job: send SIGTERM, and SIGKILL if it still runs after the grace period."
EXAMPLES = """  holter stop latest
  holter stop train-20260131-120000 --grace 60 --no-wait"""

_POLL_S = 0.2
_SLACK_S = 30.0
"""How long the agent may take after the grace period to store the end of the job."""


def main(words: list[str]) -> int:
    """Run `holter stop`."""
    parser = options.Parser("stop", ABOUT, EXAMPLES, "job", "--store", "--json")
    parser.add_argument(
        "--grace",
        type=options.within(float, 0, 86_400, "seconds"),
        default=30.0,
        metavar="SECONDS",
        help="time between SIGTERM and SIGKILL; default: 30",
    )
    parser.add_argument("--no-wait", action="store_true", help="do not wait for the end of the job")
    given = parser.read(words)
    folder = running_job(given.job, given.store)
    send_order(folder, {"stop": {"grace_s": given.grace}})
    began = time.monotonic()
    status = "Stopping" if given.no_wait else _wait(folder, given.grace)
    waited_s = time.monotonic() - began
    if given.json:
        output.write_json({"schema": 1, "job": folder.name, "status": status, "waited_s": waited_s})
    elif given.no_wait:
        print(f"job {folder.name} is asked to stop")
    else:
        print(f"job {folder.name}: {status} after {duration(waited_s)}")
    return 0


def _wait(folder: JobFolder, grace_s: float) -> str:
    """Return the status of the job at its end; raises `Refusal` when it does not end."""
    began, shown = time.monotonic(), -1
    live = sys.stderr.isatty()
    while (waited := time.monotonic() - began) < grace_s + _SLACK_S:
        status = folder.manifest().get("status")
        if status not in RUNNING:
            return str(status)
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
        f"job {folder.name} still runs after {duration(waited)}; is its `holter run` alive?",
        Refusal.NOT_RUNNING,
    )
