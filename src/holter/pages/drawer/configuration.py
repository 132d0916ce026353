"""What ran and how: command, hyperparameters, code revision, settings, machine, costs, packages."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from holter.drawing.markup import html, tag
from holter.drawing.pieces import prose
from holter.pages.layout import WHOLE
from holter.pages.tables import sortable
from holter.pages.text import overview, sections
from holter.pages.text.sections import bullets, table
from holter.views.document.bill import bill_lines
from holter.views.document.loaders import loaders

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from markupsafe import Markup

    from holter.pages.islands import Rendering
    from holter.views.reading import Reading

TITLE = "Configuration"
SHOWN = 20
_MISSING = {
    "code": "Not recorded: the command ran outside of a git repository, or was not started by `holter run`.",
    "packages": "Not recorded: the command's Python was not found, or `holter run` did not start the job.",
    "unknown": "Not recorded: `holter run` did not start the job.",
    "settings": "No variable that decides about speed was set, such as `OMP_NUM_THREADS` or `NCCL_DEBUG`. "
    "Other variables are never recorded, because they may hold secrets.",
}
_MOST_LOADERS = 8
_LOADER = ("batch_size", "workers", "prefetch_factor", "pin_memory", "persistent_workers", "dataset")


def draw(reading: Reading, _asked: Mapping[str, str], rendering: Rendering) -> Markup:
    """Draw the configuration."""
    told, manifest = reading.description, reading.trial.manifest
    recorded = manifest.get("recorded")
    known: dict[str, Any] = recorded if isinstance(recorded, dict) else {}
    command = [str(part) for part in manifest.get("command") or []]
    return html(
        tag("h1", TITLE),
        WHOLE,
        tag("h2", "Command"),
        tag("pre", shlex.join(command)) if command else tag("p", _no_command(manifest), class_="note"),
        tag("h2", "Hyperparameters"),
        _hyperparameters(reading, command),
        tag("h2", "Code"),
        _pairs(known.get("code"), "code"),
        tag("h2", "Environment"),
        _pairs(known.get("settings"), "settings" if isinstance(recorded, dict) else "unknown"),
        tag("h2", "The job"),
        sections.job(told),
        overview.details(told),
        html(tag("h2", "Cost of the job"), bullets(bill_lines(told["bill"]))) if told["bill"] else None,
        tag("h2", "Overhead"),
        sections.cost(told["cost"]),
        tag("h2", "Packages"),
        _packages(rendering, known.get("packages")),
    )


def _no_command(manifest: Mapping[str, Any]) -> str:
    return "Not recorded: the job is an imported trace." if "imported" in manifest else "Not recorded."


def _pairs(found: object, what: str) -> Markup:
    """Return names and values, or say why they are missing."""
    if not isinstance(found, dict) or not found:
        return tag("p", prose(_MISSING[what]), class_="note")
    return table(("", ""), [(str(name), tag("code", str(value))) for name, value in found.items()])


def _hyperparameters(reading: Reading, command: Sequence[str]) -> Markup:
    """Return the options of the command, and what the recorder saw of the data loader and the optimizer."""
    rows = [(name, tag("code", value), "command") for name, value in _options(command)]
    for number in reading.description["numbers"]:
        if "lr" in number["name"].lower().split("/") or "learning_rate" in number["name"].lower():
            first, last = number["first"], number["last"]
            if first is not None and last is not None:
                text = f"{first:.4g}" if first == last else f"{first:.4g} to {last:.4g}"
                rows.append((number["name"], tag("code", text), "recorded"))
    for loader in _loaders(reading):
        rows += [
            (f"{name} of loader {loader.get('index', '?')}", tag("code", str(loader[name])), "recorded")
            for name in _LOADER
            if loader.get(name) is not None
        ]
    if rows:
        return table(("name", "value", "source"), rows)
    return tag(
        "p",
        prose(
            "None is known: the command has no options. `holter.log(...)` records numbers of the training."
        ),
        class_="note",
    )


def _loaders(reading: Reading) -> list[dict[str, Any]]:
    """Return the loaders of the lowest rank, each once."""
    found: list[dict[str, Any]] = [dict(one) for one in loaders(reading.trial)["loaders"]]
    lowest = min((int(one["rank"]) for one in found if isinstance(one.get("rank"), int)), default=None)
    return [one for one in found if one.get("rank") == lowest][:_MOST_LOADERS]


def _options(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of a command as names and values: `--lr 0.1`, `--lr=0.1` and `lr=0.1`."""
    waiting = ""
    for part in command[1:]:
        if waiting and not part.startswith("--"):
            yield waiting, part
            waiting = ""
            continue
        if waiting:
            yield waiting, "yes"
            waiting = ""
        name, equals, value = part.partition("=")
        if part.startswith("--") and len(part) > 2:
            if equals:
                yield name.lstrip("-"), value
            else:
                waiting = name.lstrip("-")
        elif equals and name.replace(".", "").replace("_", "").isalnum():
            yield name, value
    if waiting:
        yield waiting, "yes"


def _packages(rendering: Rendering, found: object) -> Markup:
    if not isinstance(found, dict) or not found:
        return tag("p", prose(_MISSING["packages"]), class_="note")
    rows = ([str(name), str(version)] for name, version in found.items())
    return sortable(rendering, "packages", f"{len(found):,} packages", ("package", "version"), rows)
