"""Find the job that a user names, and check that a command can use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.cli.options import Refusal, Refusing
from holter.cli.output import warn
from holter.cli.recovery import recover_if_killed

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from holter.store.job import JobFolder
    from holter.store.trial import Trial


def find_job(text: str, store: str | None) -> JobFolder:
    """Return the job that `text` names: a name, `latest`, a path or URL, or the start of exactly one name.

    If its agent was killed on this machine, the records in its spool are stored first.

    Raises:
        Refusal: with code 4, naming the store that was searched and the nearest names.
    """
    folder = named_job(text, store)
    recover_if_killed(folder)
    return folder


def named_job(text: str, store: str | None) -> JobFolder:
    """Return the job that `text` names, as `find_job`, without recovering it."""
    from holter.store.job import store_url
    from holter.store.named import named

    try:
        return named(text, store)
    except LookupError as missing:
        raise Refusal(str(missing.args[0]), Refusal.NOT_FOUND) from None
    except (OSError, ValueError) as error:
        raise unreadable_store(store_url(store), error) from None


def readable_job(text: str, store: str | None) -> Trial:
    """Return the job that `text` names, to be read; raises `Refusal` with code 65 for an unreadable one."""
    from holter.store.trial import Trial

    folder = find_job(text, store)
    _check_readable(folder)
    return Trial(folder)


def perturbed_job(given: argparse.Namespace) -> Trial | None:
    """Return the job of `--perturbed`, or None; raises `Refusal` if the command compares no tensors."""
    if given.perturbed is None:
        return None
    if not given.tensors:
        raise Refusal("--perturbed shows the round-off for --tensors; give both")
    return readable_job(given.perturbed, given.store)


def unreadable_store(url: str, error: Exception) -> Refusal:
    """Return the refusal for a store that cannot be read; an error that names the store is quoted alone."""
    text = str(error)
    return Refusal(text if "is no store" in text else f"store {url}: {text}", Refusal.UNREADABLE)


def _check_readable(folder: JobFolder) -> None:
    """Raise `Refusal` with code 65 for a job whose manifest cannot be read; warn of an unfinished one."""
    from holter.views import jobs

    if not jobs.readable(folder):
        why = str(folder.fault)
        if why.endswith("is missing"):
            why += "; `holter run` records a job, `holter import` makes one of traces"
        raise Refusal(f"job {folder.name} cannot be read: {why}", Refusal.UNREADABLE)
    if folder.manifest().get("status") in jobs.RUNNING and (gone := jobs.why_not_running(folder)):
        warn(gone)


def running_job(text: str, store: str | None) -> JobFolder:
    """Return the job that `text` names; raises `Refusal` with code 5 when it does not run."""
    from holter.views.jobs import why_not_running

    folder = find_job(text, store)
    if folder.fault:
        raise Refusal(f"job {folder.name} cannot be read: {folder.fault}", Refusal.UNREADABLE)
    why = why_not_running(folder)
    if why is not None:
        raise Refusal(why, Refusal.NOT_RUNNING)
    return folder


def send_order(folder: JobFolder, order: Mapping[str, object]) -> None:
    """Write an order for the job's agents, which read it within a second; raises `Refusal`."""
    before = f"the order cannot be written to job {folder.name}: "
    with Refusing(OSError, before=before, code=Refusal.UNREADABLE):
        folder.order(**order)


def check_obeyed(folder: JobFolder, order: str) -> None:
    """Raise `Refusal` with code 5 when no agent of the job knows this kind of order."""
    from holter.views.jobs import why_not_obeyed

    if why := why_not_obeyed(folder, order):
        raise Refusal(why, Refusal.NOT_RUNNING)
