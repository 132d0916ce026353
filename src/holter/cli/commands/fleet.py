"""`holter fleet`: sum up all jobs of stores."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from holter.cli import options, output
from holter.cli.options import Refusal
from holter.views.document.bill import money
from holter.views.wording import duration, hours_text, percent, words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from holter.views.fleet import Fleet, FleetJob, FleetSum

ABOUT = """Sum up all jobs of stores: machine and GPU hours, idle time and its cost, owners, verdicts, and the
findings that cost most."""
EXAMPLES = """  holter fleet
  holter fleet s3://team/jobs --price 32.77
  holter fleet /shared/a /shared/b --days 30 --json"""
_MOST = 12
"""Lines of each table; --json has all."""


def main(words_: list[str]) -> int:
    """Run `holter fleet`."""
    parser = options.Parser("fleet", ABOUT, EXAMPLES, "--store", "--price", "--json")
    parser.add_argument("stores", metavar="STORE", nargs="*", help="stores; default: the one of --store")
    parser.add_argument(
        "--days",
        metavar="N",
        default="7",
        help="findings of the jobs that ended in so many days (default: 7)",
    )
    given = parser.read(words_)
    try:
        days = float(given.days)
    except ValueError:
        days = 0.0
    if not 0 < days < 1e5:
        raise Refusal(f"--days {given.days} is not valid; valid: a number above 0, such as 7")
    if given.stores and given.store:
        raise Refusal("name the stores, or one with --store, not both")
    from holter.store.job import store_url
    from holter.views.fleet import fleet

    price = options.price(given.price)
    found = fleet(given.stores or [store_url(given.store)], price=price, days=days)
    for fault in found["wrong"]:
        output.warn(fault)
    if given.json:
        output.write_json(found)
    elif found["jobs"]:
        _print(found)
    elif not found["wrong"]:
        output.say(f"No job in {', '.join(found['stores'])} yet. Record one: holter run -- python train.py")
    return Refusal.UNREADABLE if len(found["wrong"]) == len(found["stores"]) else 0


def _print(found: Fleet) -> None:
    from holter.views.fleet import summary_lines

    console = output.console(sys.stdout)
    for line in summary_lines(found):
        output.say(line)
    print()
    if found["problems"]:
        console.print(_problems(found))
        print()
    for title, key in (("owner", "owners"), ("verdict", "verdicts")):
        groups: Mapping[str, FleetSum] = found[key]  # type: ignore[literal-required]
        if groups:
            console.print(_groups(title, groups))
            print()
    console.print(_jobs(found["jobs"][:_MOST]))
    if len(found["jobs"]) > _MOST:
        print(f"and {len(found['jobs']) - _MOST:,} older jobs; --json lists all")


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        left = name in ("job", "owner", "verdict", "status", "most in", "says") or name.startswith("finding")
        table.add_column(
            name, justify="left" if left else "right", overflow="fold" if name == "job" else "ellipsis"
        )
    return table


def _problems(found: Fleet) -> Table:
    table = _table(f"finding, last {found['days']:g} days", "jobs", "machine hours", "cost", "most in")
    for one in found["problems"][:_MOST]:
        cost = "" if one["cost"] is None else money(one["cost"])
        table.add_row(one["rule"], f"{one['jobs']:,}", hours_text(one["node_hours"]), cost, one["worst"])
    return table


def _groups(title: str, groups: Mapping[str, FleetSum]) -> Table:
    table = _table(title, "jobs", "failed", "machine hours", "GPU hours", "idle hours", "cost")
    for name, one in list(groups.items())[:_MOST]:
        table.add_row(
            output.clean(words(name) if title == "verdict" else name),
            f"{one['jobs']:,}",
            f"{one['failed']:,}",
            "" if one["nodes_unknown"] == one["jobs"] else hours_text(one["node_hours"]),
            "" if one["gpus_unknown"] == one["jobs"] else hours_text(one["gpu_hours"]),
            "" if one["idle_unknown"] == one["jobs"] else hours_text(one["idle_node_hours"]),
            "" if one["cost"] is None else money(one["cost"]),
        )
    return table


def _jobs(jobs: list[FleetJob]) -> Table:
    from rich.text import Text

    table = _table("job", "owner", "created", "status", "duration", "nodes", "GPUs", "idle", "says")
    for job in jobs:
        created = time.localtime(job["created"] / 1e9) if job["created"] else None
        table.add_row(
            job["name"],
            job["owner"] or "",
            time.strftime("%m-%d %H:%M", created) if created else "",
            "silent" if job["silent"] else job["status"] if job["kept"] else f"{job['status']}, deleted",
            "" if job["hours"] is None else duration(job["hours"] * 3600),
            "" if job["nodes"] is None else str(job["nodes"]),
            "" if job["gpus"] is None else str(job["gpus"]),
            "" if job["idle_pct"] is None else percent(job["idle_pct"]),
            Text(output.clean(job["says"] or ""), no_wrap=True, overflow="ellipsis"),
        )
    return table
