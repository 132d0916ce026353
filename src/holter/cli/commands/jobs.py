"""`holter jobs`: list the jobs of a store, newest first."""

from __future__ import annotations

import sys
import time
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import counted
from holter.cli import options, output
from holter.cli.job_lookup import unreadable_store
from holter.cli.options import Refusal
from holter.cli.recovery import recover_if_killed
from holter.views.jobs import ended_sick, said, summary, tagged
from holter.views.wording import duration, milliseconds, status_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from holter.views.jobs import ListedJob

ABOUT = "List the jobs of a store, newest first."
EXAMPLES = """  holter jobs
  holter jobs --name 'resnet*' --status Failed --since 7d
  holter jobs --watch
  holter jobs --json"""

STATUSES = ("InProgress", "Completed", "Failed", "Stopping", "Stopped", "Ended", "Detached", "Unreadable")
_NAME_WIDTH = 34
_VERDICT_WIDTH = 20
_WATCH_S = 2.0
_AGES_NS = {"min": 60e9, "h": 3.6e12, "d": 86.4e12, "w": 604.8e12}
COLORS = {
    "Completed": "green",
    "Failed": "red",
    "Stopped": "yellow",
    "Ended": "green",
    "Detached": "green",
    "InProgress": "cyan",
    "Unreadable": "red",
}


def main(words: list[str]) -> int:
    """Run `holter jobs`."""
    parser = options.Parser("jobs", ABOUT, EXAMPLES, "--store", "--json")
    parser.add_argument("--name", metavar="PATTERN", help="only names that match; * and ? are wildcards")
    parser.add_argument("--status", metavar="STATUS", help=f"only jobs of this status: {', '.join(STATUSES)}")
    parser.add_argument(
        "--since", metavar="WHEN", help="only jobs created since then: 30min, 12h, 7d, or 2026-01-31"
    )
    parser.add_argument(
        "--tag", metavar="KEY[=VALUE]", help="only jobs with this tag; see `holter run --tag`"
    )
    parser.add_argument("--watch", action="store_true", help="list them every two seconds until Ctrl-C")
    given = parser.read(words)
    from holter.store.job import store_url

    if given.watch and (given.json or not sys.stdout.isatty()):
        raise Refusal("--watch needs a terminal; without it, `holter jobs` lists the jobs once")
    url = store_url(given.store)
    status = next(
        (valid for valid in STATUSES if valid.lower() == (given.status or "").lower()), given.status
    )
    if status is not None:
        options.check_choice("status", status, STATUSES)
    since = 0 if given.since is None else _since(given.since, time.time_ns())

    def chosen() -> tuple[list[ListedJob], int]:
        listed = _listed(url)
        matching = [
            job
            for job in listed
            if (not given.name or fnmatchcase(job["name"], given.name) or given.name in job["name"])
            and status in (None, job["status"])
            and (job["created"] or 0) >= since
            and tagged(job, given.tag or "")
        ]
        return matching, len(listed)

    found, count = chosen()
    if given.json:
        output.write_json({"schema": 1, "store": url, "jobs": found})
    elif given.watch:
        _watch(lambda: chosen()[0])
    elif found:
        output.console(sys.stdout).print(_table(found, output.columns(sys.stdout)))
    elif count:
        output.say(f"None of the {counted(count, 'job')} in {url} matches; `holter jobs` lists all.")
    else:
        output.say(f"No job in {url} yet. Record one: holter run -- python train.py (or try holter demo)")
    return 0


def _listed(url: str) -> list[ListedJob]:
    from holter.store.job import jobs

    try:
        folders = jobs(url)
        for folder in folders:
            recover_if_killed(folder)
        return [summary(folder, time.time_ns()) for folder in folders]
    except (OSError, ValueError) as error:
        raise unreadable_store(url, error) from None


def _watch(look: Callable[[], list[ListedJob]]) -> None:
    """List jobs again and again until Ctrl-C; as many as the terminal has lines for."""
    from rich.live import Live

    console = output.console(sys.stdout)
    with Live(console=console, auto_refresh=False) as live:
        while True:
            listed = look()[: max(console.height - 3, 1)]
            live.update(_table(listed, console.width) if listed else "No job yet.", refresh=True)
            time.sleep(_WATCH_S)


def _since(given: str, now_ns: int) -> int:
    if (age := options.quantity(given, _AGES_NS)) is not None:
        return now_ns - int(age)
    try:
        return int(datetime.fromisoformat(given).timestamp() * 1e9)
    except ValueError:
        raise Refusal(
            f"--since {given!r} is not a time; valid: 30min, 12h, 7d, 2w, or a date as 2026-01-31"
        ) from None


def _step(job: ListedJob) -> str:
    """Return the mean step time of a job that was judged, and the step of a running one."""
    if job["step"] is not None:
        return f"{job['step']:,}" + (f" of {job['planned']:,}" if job["planned"] else "")
    verdict = job["verdict"]
    known = verdict.get("step_ms") if isinstance(verdict, dict) else None
    return milliseconds(known) if isinstance(known, int | float) else ""


def _table(listed: list[ListedJob], columns: int) -> Table:
    """Return the jobs as a table; in a narrow terminal the verdict has the place of the step time."""
    from rich.table import Table
    from rich.text import Text

    rows = [
        (
            job["name"],
            time.strftime("%m-%d %H:%M", time.localtime(job["created"] / 1e9)) if job["created"] else "",
            Text(
                status_text(job["status"]),
                style="yellow" if ended_sick(job) else COLORS.get(job["status"], ""),
            ),
            duration(job["duration_s"]) if job["duration_s"] is not None else "",
            _step(job),
        )
        for job in listed
    ]
    # On a narrow terminal the verdict is cut, not the name, which other commands take.
    width = min(max(len("job"), *(len(row[0]) for row in rows)), _NAME_WIDTH)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("job", overflow="fold", width=width)
    table.add_column("created", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("duration", justify="right", no_wrap=True)
    others = [max(len(str(row[at])) for row in rows) + 2 for at in range(1, len(rows[0]))]
    taken = width + 2 + sum(others)
    if roomy := columns - taken >= _VERDICT_WIDTH:
        table.add_column("step", justify="right", no_wrap=True)
    table.add_column("verdict")
    for job, row in zip(listed, rows, strict=True):
        verdict = Text(output.clean(said(job)), no_wrap=True, overflow="ellipsis")
        table.add_row(*(row if roomy else row[:-1]), verdict)
    return table
