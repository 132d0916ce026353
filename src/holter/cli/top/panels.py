"""Writes what `holter top` shows of a job as texts and tables of Rich."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from holter.cli.bar import bar, legend
from holter.cli.output import clean
from holter.views.issues import ordered
from holter.views.wording import advice_text, duration, issue_text, milliseconds, natural, percent, rate, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.cli.top.snapshot import Snapshot

MOST_ROWS = 8
"""Ranks, GPUs and findings that are listed; the others are counted."""
_LEVELS = "▁▂▃▄▅▆▇█"
_COLORS = {"critical": "bold red", "warning": "yellow", "info": ""}
_STATUS = {"InProgress": "running", "Stopping": "stopping"}


def title(now: Snapshot, width: int) -> Text:
    """Return name, state, progress and the time that is left in one line."""
    job, done = now.description["job"], now.progress
    state = _STATUS.get(job["status"], job["status"].lower())
    if not now.running and job["status"] in _STATUS:
        state = "no longer recorded"
    text = Text.assemble((clean(now.name), "bold"), f" · {state} {duration(job['duration_s'])}")
    if done["step"]:
        text.append(f" · step {done['step']:,}")
    if done["total"] and done["share_pct"] is not None:
        cells = max(min(width // 8, 20), 5)
        drawn = round(done["share_pct"] / 100 * cells)
        text.append(f" of {done['total']:,} ")
        text.append("█" * drawn, "green").append("░" * (cells - drawn), "bright_black")
        text.append(f" {done['share_pct']:.0f} %")
    if now.running and done["left_s"] is not None:
        text.append(f" · {duration(done['left_s'])} left")
    return text


def verdict(now: Snapshot) -> Text:
    """Return the headline, the verdict so far and the first advice."""
    found = now.description["verdict"]
    text = Text()
    if headline := now.description["job"]["headline"]:
        text.append(f"{clean(headline)}\n", "bold red")
    text.append(clean(found["sentence"]))
    for one in found["advice"][:1]:
        text.append(f"\n{clean(advice_text(one))}", "cyan")
    return text


def steps(now: Snapshot, width: int) -> Text:
    """Return the rate, the newest step times as a curve, and the parts of a step as a bar."""
    found = now.description["steps"]
    if found is None:
        return Text("No step yet.")
    text = Text.assemble(
        (milliseconds(found["mean_ms"]), "bold"), f" a step, p95 {milliseconds(found['p95_ms'])}"
    )
    if found["per_second"]:
        text.append(f", {rate(found['per_second'])} a second")
    text.append(f"\n{curve(now.newest_ms, width)}")
    if parts := now.description["breakdown"]:
        for line in (bar(parts, width), *legend(parts, width, now.description["not_seen"])):
            text.append("\n").append_text(line)
    return text


def curve(values: Sequence[float], width: int) -> str:
    """Return the newest values as one line of blocks, from 0 to the largest."""
    newest = list(values[-width:])
    most = max(newest, default=0.0)
    return "".join(_LEVELS[min(int(len(_LEVELS) * value / most), 7)] if most else "▁" for value in newest)


def ranks(now: Snapshot) -> Table:
    """Return the slowest ranks; the slow one waits least for the others."""
    table = _table("rank", "step", "mean step", "waits for others")
    slowest = sorted(now.ranks, key=lambda one: (one.step, one.waits_pct, -one.mean_ms))
    for one in slowest[:MOST_ROWS]:
        table.add_row(str(one.rank), f"{one.step:,}", milliseconds(one.mean_ms), percent(one.waits_pct))
    _count_rest(table, len(slowest))
    return table


def machine(now: Snapshot) -> Table:
    """Return the newest readings of each node."""
    table = _table("node", "CPU", "memory", "I/O wait", "disk", "network")
    read = now.readings
    nodes = sorted({node for found in read.values() for node, _ in found}, key=natural)
    for node in nodes[:MOST_ROWS]:

        def value(metric: str, at: str = node) -> float | None:
            return read.get(metric, {}).get((at, ""))

        table.add_row(
            clean(node),
            _share(value("cpu.util")),
            _share(value("mem.used_pct")),
            _share(value("cpu.iowait")),
            _rate(value("disk.read_bytes"), value("disk.write_bytes")),
            _rate(value("net.rx"), value("net.tx")),
        )
    _count_rest(table, len(nodes))
    return table


def gpus(now: Snapshot) -> Table | None:
    """Return the newest readings of each GPU; None without a GPU."""
    read = now.readings
    found = sorted(read.get("gpu.util", {}), key=lambda at: (natural(at[0]), natural(at[1])))
    if not found:
        return None
    table = _table("GPU", "busy", "memory", "power", "temperature")
    several = len({node for node, _ in found}) > 1
    for node, device in found[:MOST_ROWS]:

        def value(metric: str, at: tuple[str, str] = (node, device)) -> float | None:
            return read.get(metric, {}).get(at)

        watts, degrees = value("gpu.power"), value("gpu.temp")
        table.add_row(
            clean(f"{node} {device}" if several else device),
            _share(value("gpu.util")),
            _share(value("gpu.mem.used_pct")),
            "" if watts is None else f"{watts:.0f} W",
            "" if degrees is None else f"{degrees:.0f} °C",
        )
    _count_rest(table, len(found))
    return table


def findings(now: Snapshot) -> Text:
    """Return what the rules found, the worst first."""
    found = [one for one in ordered(now.description["rules"]) if not one.over]
    if not found:
        return Text("No finding so far." if now.running else "No finding.", "bright_black")
    lines = [Text(clean(issue_text(one)), _COLORS.get(one.severity, "")) for one in found[:MOST_ROWS]]
    if len(found) > MOST_ROWS:
        lines.append(Text(f"and {len(found) - MOST_ROWS} more", "bright_black"))
    return Text("\n").join(lines)


def numbers(now: Snapshot) -> Text:
    """Return the newest values of loss, learning rate and logged numbers."""
    told = [
        f"{clean(one['name'])} {one['last']:.4g}"
        for one in now.description["numbers"][:MOST_ROWS]
        if one["last"] is not None
    ]
    return Text(" · ".join(told))


def _table(*names: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bright_black")
    for number, name in enumerate(names):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    return table


def _count_rest(table: Table, count: int) -> None:
    if count > MOST_ROWS:
        table.add_row(f"and {count - MOST_ROWS} more", style="bright_black")


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} %"


def _rate(*values: float | None) -> str:
    known = [value for value in values if value is not None]
    return f"{size(sum(known))}/s" if known else ""
