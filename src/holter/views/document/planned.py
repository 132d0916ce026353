"""Finds the main data loader of a job, its planned number of steps, and the source of that number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holter.schema.phases import ITERATOR_START, NEXT_BATCH
from holter.views.document.cost import details

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.store.trial import Trial

_LOADS = f"phase = 'data_loading' AND worker = -1 AND name IN ('{ITERATOR_START}', '{NEXT_BATCH}')"
_STEPS = ("max_steps", "train_iters")
_EPOCHS = ("num_train_epochs", "max_epochs", "num_epochs", "epochs")
"""Names of the options of trainers and training scripts; `-` is equal to `_`."""


@dataclass(frozen=True, slots=True)
class MainLoader:
    """The loader that gave most batches to the first rank."""

    number: int
    batches: int
    begins: list[int]
    """When it was started, once an epoch; ns since the epoch."""
    a_step: int
    """Batches that a step takes."""

    @classmethod
    def of(cls, trial: Trial, ranks: int, steps: int) -> MainLoader | None:
        """Find the main loader among a job's spans; None if the spans name no loader.

        `ranks` is the number of ranks that took steps, `steps` the number of rows of table `steps`.
        """
        table = trial.sql(
            f"SELECT value, count(*) FILTER (name = '{NEXT_BATCH}') AS batches, "  # noqa: S608
            f"list(time ORDER BY time) FILTER (name = '{ITERATOR_START}') AS begins FROM spans "
            f"WHERE {_LOADS} AND rank = (SELECT min(rank) FROM spans WHERE {_LOADS}) AND NOT isnan(value) "
            "GROUP BY value ORDER BY batches DESC LIMIT 1"
        )
        if not table.rows:
            return None
        begins, batches = table["begins"][0], int(table["batches"][0])
        # Loaders are a few batches ahead.
        a_step = round(batches * (ranks or 1) / max(steps, 1))
        started = [] if begins is None else [int(time) for time in begins]
        return cls(int(table["value"][0]), batches, started, a_step)


def planned(trial: Trial, loader: int | None, batches_per_step: int) -> tuple[int, str] | None:
    """Return the planned number of steps and its source; None if unknown.

    The number that the user gave to holter counts first, then that of a trainer, then the steps in the
    command, then its epochs, each as long as the main loader. `loader` is the number of the main loader on
    the first rank.
    """
    manifest = trial.manifest
    told = manifest.get("total_steps")
    if isinstance(told, int) and told > 0:
        return told, "`holter run --total-steps`"
    begun = details(trial.table("events", where="kind = 'planned'"), "planned")
    for one in sorted(begun, key=lambda one: (-int(one["rank"]), int(one["time"])), reverse=True):
        if isinstance(steps := one.get("steps"), int) and steps > 0:
            return steps, f"the {one.get('trainer')} when it began"
    words = [str(word) for word in manifest.get("command") or []]
    for name in _STEPS:
        if steps := _number(words, name):
            return steps, f"--{name} of the command"
    for name in _EPOCHS:
        epochs, batches = _number(words, name), loader_batches(trial, loader)
        if epochs and batches and batches_per_step:
            return epochs * -(
                -batches // batches_per_step
            ), f"--{name} {epochs} of the command, and {batches:,} batches of its data loader"
    return None


def loader_batches(trial: Trial, loader: int | None) -> int | None:
    """Return the number of batches of an epoch; None if the loader has no length."""
    if loader is None:
        return None
    events = trial.table("events", where="kind = 'loader'")
    found: list[Any] = [
        one.get("batches")
        for one in sorted(details(events, "loader"), key=lambda one: one["rank"])
        if one.get("index") == loader
    ]
    return next((batches for batches in found if isinstance(batches, int) and batches > 0), None)


def _number(words: Sequence[str], name: str) -> int | None:
    """Return the positive whole number after an option of a command; None without one."""
    for at, word in enumerate(words):
        option, given, value = word.partition("=")
        if not option.startswith("--") or option[2:].rpartition(".")[2].replace("-", "_") != name:
            continue
        text = value if given else words[at + 1] if at + 1 < len(words) else ""
        try:
            number = float(text)
        except ValueError:
            continue
        if number.is_integer() and 0 < number < 2**53:
            return int(number)
    return None
