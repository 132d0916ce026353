"""Finds the planned number of steps of a job, and the source of that number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.views.document.cost import details

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.store.trial import Trial

_STEPS = ("max_steps", "train_iters")
_EPOCHS = ("num_train_epochs", "max_epochs", "num_epochs", "epochs")
"""Names of the options of trainers and training scripts; `-` is equal to `_`."""


def planned(trial: Trial, loader: int | None, batches_per_step: int) -> tuple[int, str] | None:
    """Return the planned number of steps and its source; None if unknown.

    What the user told holter counts first, then what a trainer said when it began, then the steps in the
    command, then its epochs, each as long as the main loader.

    Args:
        trial: The job.
        loader: The number of its main loader on the first rank; None when no loader was seen.
        batches_per_step: How many batches a step took so far.
    """
    manifest = trial.manifest
    told = manifest.get("total_steps")
    if isinstance(told, int) and told > 0:
        return told, "`holter run --steps`"
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
