"""Writes the headline of a job that failed, hangs, or has numbers that are not finite."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from holter.analysis.events import details
from holter.analysis.verdict.evidence import part_name
from holter.schema.phases import ENDED
from holter.schema.signals import signal_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.schema.table import Table

_RAISED_AGAIN = re.compile(r"Caught \w+ in (?P<where>.+)\.\nOriginal Traceback \(most recent call last\):\n")
_MOST_LETTERS = 120
_FRAME = re.compile(r'^  File "(.+)", line (\d+), in (\S+)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class NonFinite:
    """The first value of a scalar that is NaN or infinite."""

    name: str
    value: float
    step: int
    rank: int
    time: int
    last_finite: float | None
    """The value before it."""
    last_step: int = -1
    """The step of the value before it; -1 without one."""


def first_non_finite(scalars: Table) -> NonFinite | None:
    """Find the first scalar that is not finite; None if all are finite.

    A scalar that was never finite (a metric that is undefined) does not count, unless its name says loss.
    """
    if not scalars.rows:
        return None
    ordered = scalars.sorted("time")
    bad = ~np.isfinite(ordered["value"])
    for row in np.flatnonzero(bad).tolist():
        name, rank = str(ordered["name"][row]), int(ordered["rank"][row])
        same = (ordered["name"][:row] == name) & (ordered["rank"][:row] == rank) & ~bad[:row]
        before = ordered["value"][:row][same]
        steps = ordered["step"][:row][same]
        if len(before) or "loss" in name.lower():
            return NonFinite(
                name=name,
                value=float(ordered["value"][row]),
                step=int(ordered["step"][row]),
                rank=rank,
                time=int(ordered["time"][row]),
                last_finite=float(before[-1]) if len(before) else None,
                last_step=int(steps[-1]) if len(steps) else -1,
            )
    return None


def headline(manifest: Mapping[str, object], events: Table | None, scalars: Table | None) -> str | None:
    """Return one sentence about the failure; None without a failure.

    Args:
        manifest: The job's manifest: status, exit_code, signal, failure.
        events: Table `events`; an exception's text is looked up there when the manifest lacks it.
        scalars: Table `scalars`; searched for the first value that is not finite.
    """
    died = _hung(manifest, events) or _died(manifest, events) or _stopped(manifest)
    broken = first_non_finite(scalars) if scalars is not None else None
    if broken is None:
        return died
    text = _broken(broken) + _origin(broken, events)
    return f"{died} Before that, {text[:1].lower()}{text[1:]}" if died else text


def _stopped(manifest: Mapping[str, object]) -> str | None:
    """Return why a rule stopped the job, if one did."""
    by = manifest.get("stopped_by")
    return f"{by['reason']}." if isinstance(by, dict) and by.get("reason") else None


def _hung(manifest: Mapping[str, object], events: Table | None) -> str | None:
    """Describe a hang that lasts, or lasted until something ended the job, whatever that was."""
    lasting: list[tuple[set[int], Mapping[str, object]]] = []
    for row, detail in details(events, "hang"):
        if detail.get("recovered"):
            lasting = [(left, one) for ranks, one in lasting if (left := ranks - {row["rank"]})]
        elif detail.get("text"):
            listed = detail.get("ranks")
            ranks = {one for one in listed if isinstance(one, int)} if isinstance(listed, list) else set()
            lasting.append((ranks or {row["rank"]}, {**detail, "rank": row["rank"]}))
    if not lasting:
        return None
    word, newest = "Hangs" if manifest.get("status") == "InProgress" else "Hung", lasting[-1][1]
    return f"{word}{_where(newest)}: {newest['text']}."


def _died(manifest: Mapping[str, object], events: Table | None) -> str | None:
    stored = manifest.get("failure")
    failure = stored if isinstance(stored, dict) else {}
    kind = failure.get("kind")
    if not kind and manifest.get("status") != "Failed":
        return None
    where = _where(failure)
    said = failure.get("exception") or _exception(events, failure.get("rank"))
    if kind == "hang":
        return f"Hangs{where}: no progress since then."
    if kind == "oom":
        memory = f": {exception_line(said)}" if said else ""
        return f"Out of memory{where}{_ended(memory)}"
    if kind == "agent killed":
        return f"The agent was killed{where}, and the training's end was not recorded."
    if kind == "lost":
        return (
            f"A {'node' if failure.get('node') and failure.get('rank') is None else 'rank'} was lost{where}."
        )
    number = failure.get("signal") or manifest.get("signal")
    number = signal_name(number) if isinstance(number, int) else number
    if kind == "signal" or (number and not said):
        return f"Killed ({number or 'a signal'}){where}."
    if said:
        return _ended(f"{exception_line(said)}{where}")
    code = manifest.get("exit_code")
    return f"Failed with exit code {code}{where}." if code is not None else f"Failed{where}."


def _where(failure: Mapping[str, object]) -> str:
    step, phase, rank = (failure.get(key) for key in ("step", "phase", "rank"))
    stepped = isinstance(step, int) and step >= 0
    text = f" in step {step}" if stepped else ""
    if phase == ENDED:
        text = f"{f' after step {step},' if stepped else ''} when its recording had ended"
    elif phase and phase not in ("step", "other"):
        text += f" while in {part_name(str(phase))}"
    known = [f"rank {rank}"] if isinstance(rank, int) and rank >= 0 else []
    known += [f"node {failure['node']}"] if failure.get("node") else []
    return text + (f" ({', '.join(known)})" if known else "")


def _exception(events: Table | None, rank: Any) -> str | None:
    """Return the first exception among the events, of the given rank if there is one."""
    found = sorted(details(events, "exception"), key=lambda pair: pair[0]["rank"] != rank)
    for _, detail in found:
        if detail.get("type"):
            message = str(detail.get("message") or "")
            return f"{detail['type']}: {message}" if message else str(detail["type"])
    return None


def _broken(found: NonFinite) -> str:
    what = "NaN" if math.isnan(found.value) else "infinite"
    step = f" in step {found.step}" if found.step >= 0 else ""
    before = f"; it was {found.last_finite:.3g} before" if found.last_finite is not None else ""
    return f"The {found.name} turned {what}{step} (rank {found.rank}){before}."


def _origin(found: NonFinite, events: Table | None) -> str:
    """Name the module in which a number stopped being finite, if the recorder observed it.

    Events before the last finite value do not count, as of a step that a gradient scaler skipped.
    """
    for _, detail in details(events, "nonfinite"):
        step = detail.get("step")
        if not isinstance(step, int) or not found.last_step <= step <= found.step:
            continue
        # An operation of no module is the loop's own, as those of its loss.
        module = str(detail.get("module") or ("the loss" if "operation" in detail else ""))
        parameter = str(detail.get("parameter") or "")
        if module or parameter:
            place = _place(module, parameter, output=detail.get("direction") == "forward")
            return f" It first appears in {place}, in {_pass(detail)} of step {step}."
    return ""


def _place(module: str, parameter: str, *, output: bool) -> str:
    """Name a module by its output or its own parameter, with the nearest parameter before it."""
    if not module:
        return f"parameter {parameter}"
    where = module
    if module != "the loss":
        where = f"the output of module {module}" if output else f"module {module}"
    if not parameter:
        return where
    own = parameter.removeprefix(f"{module}.")
    if own != parameter:
        return f"{where} (parameter {own})"
    return f"{where} (the last parameter before it is {parameter})"


def _pass(detail: Mapping[str, object]) -> str:
    if detail.get("direction") == "forward":
        return "the forward pass"
    # Weights that a step finds broken were broken by the update before it, whatever its gradients were.
    return "the update" if "noticed" in detail else "the backward pass"


def exception_line(text: str) -> str:
    """Return an exception's text in one line; its own text has at most 120 characters and ends with a word.

    That is the first line. PyTorch raises an exception of another process or thread again with its traceback
    as text. Then the last line says what happened, and the first line where.
    """
    lines = text.strip().splitlines()
    again = _RAISED_AGAIN.search(text)
    if again is None:
        return _shortened(lines[0]) if lines else ""
    frames = _FRAME.findall(text)
    place = f" in {frames[-1][2]} ({PurePath(frames[-1][0]).name}:{frames[-1][1]})" if frames else ""
    return f"{_shortened(lines[-1])}{place} of {again['where']}"


def _ended(text: str) -> str:
    return text if text.endswith("…") else f"{text}."


def _shortened(line: str) -> str:
    line = line.rstrip(".: ")
    if len(line) <= _MOST_LETTERS:
        return line
    kept = line[:_MOST_LETTERS]
    # A path or a number can be longer than the line.
    words = kept.rpartition(" ")[0] if " " in kept[_MOST_LETTERS // 2 :] else kept[:-1]
    return words.rstrip(".:, ") + "…"
