"""The page that sums up all jobs: hours, idle time and its cost, owners, verdicts, the worst problems."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from holter.dashboard.answers import RefusalError
from holter.drawing.markup import html, tag
from holter.pages.addresses import job_address
from holter.views.document.bill import money
from holter.views.fleet import summary_lines
from holter.views.wording import duration, hours_text, percent, status_text, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from markupsafe import Markup

    from holter.views.fleet import Fleet, FleetJob, FleetSum

_MOST = 100
_DAYS = 7.0
_NUMBERS = (
    "jobs",
    "failed",
    "machine hours",
    "GPU hours",
    "idle hours",
    "cost",
    "duration",
    "nodes",
    "GPUs",
    "idle",
)


def asked_for(asked: Mapping[str, str]) -> tuple[float | None, float]:
    """Return the price and the days that an address asks for; raises `RefusalError`."""
    return _number(asked, "price", None, least=0.0), _number(asked, "days", _DAYS, least=1e-3) or _DAYS


def _number(asked: Mapping[str, str], name: str, default: float | None, *, least: float) -> float | None:
    text = asked.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= 1e9:
        raise RefusalError(f"{name} is {text[:40]!r}; a number from {least:g} is expected")
    return value


def page(found: Fleet, asked: Mapping[str, str]) -> Markup:
    """Draw the page; `asked` holds the parameters of its address."""
    wrong = html(*(tag("p", text, class_="headline") for text in found["wrong"]))
    if not found["jobs"]:
        return html(tag("h1", "Fleet"), wrong or tag("p", "No job yet."))
    form = tag(
        "form",
        tag(
            "label",
            "price of a machine hour ",
            tag("input", name="price", type="number", min="0", step="any", value=asked.get("price", "")),
        ),
        tag(
            "label",
            " findings of the last days ",
            tag("input", name="days", type="number", min="1", step="1", value=f"{found['days']:g}"),
        ),
        tag("button", "Show"),
        class_="search",
        action="/fleet",
    )
    return html(
        tag("h1", "Fleet"),
        wrong,
        html(*(tag("p", line) for line in summary_lines(found))),
        form,
        _problems(found),
        _groups("Owners", "owner", found["owners"]),
        _groups("Verdicts", "verdict", {words(name): one for name, one in found["verdicts"].items()}),
        tag("h2", "Jobs"),
        tag("p", f"The newest {_MOST} of {len(found['jobs']):,}.") if len(found["jobs"]) > _MOST else None,
        _table(
            ("job", "owner", "status", "duration", "nodes", "GPUs", "idle", "cost", "says"),
            (_job(one, found["stores"]) for one in found["jobs"][:_MOST]),
        ),
    )


def _problems(found: Fleet) -> Markup:
    if not found["problems"]:
        return html()
    rows = (
        (
            one["rule"],
            f"{one['jobs']:,}",
            hours_text(one["node_hours"]),
            "" if one["cost"] is None else money(one["cost"]),
            one["worst"],
        )
        for one in found["problems"]
    )
    title = f"Most expensive findings of the last {found['days']:g} days"
    return html(tag("h2", title), _table(("finding", "jobs", "machine hours", "cost", "most in"), rows))


def _groups(title: str, name: str, groups: Mapping[str, FleetSum]) -> Markup:
    rows = (
        (
            group,
            f"{one['jobs']:,}",
            f"{one['failed']:,}",
            "" if one["nodes_unknown"] == one["jobs"] else hours_text(one["node_hours"]),
            "" if one["gpus_unknown"] == one["jobs"] else hours_text(one["gpu_hours"]),
            "" if one["idle_unknown"] == one["jobs"] else hours_text(one["idle_node_hours"]),
            "" if one["cost"] is None else money(one["cost"]),
        )
        for group, one in list(groups.items())[:_MOST]
    )
    heads = (name, "jobs", "failed", "machine hours", "GPU hours", "idle hours", "cost")
    return html(tag("h2", title), _table(heads, rows)) if groups else html()


def _job(one: FleetJob, stores: Sequence[str]) -> tuple[Markup | str, ...]:
    address = job_address(one["name"], stores.index(one["store"]))
    known = status_text(one["status"])
    status = "silent" if one["silent"] else known if one["kept"] else f"{known}, deleted"
    return (
        tag("a", one["name"], href=address) if one["kept"] else one["name"],
        one["owner"] or "",
        status,
        "" if one["hours"] is None else duration(one["hours"] * 3600),
        "" if one["nodes"] is None else f"{one['nodes']:,}",
        "" if one["gpus"] is None else f"{one['gpus']:,}",
        "" if one["idle_pct"] is None else percent(one["idle_pct"]),
        "" if one["cost"] is None else money(one["cost"]),
        one["says"] or "",
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[Markup | str]]) -> Markup:
    classes = ["n" if head in _NUMBERS else None for head in heads]
    head = tag("tr", *(tag("th", text, class_=kind) for text, kind in zip(heads, classes, strict=True)))
    body = [
        tag("tr", *(tag("td", cell, class_=kind) for cell, kind in zip(row, classes, strict=True)))
        for row in rows
    ]
    return tag("div", tag("table", tag("thead", head), tag("tbody", *body), class_="sums"), class_="scroll")
