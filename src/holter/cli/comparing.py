"""Compare jobs that a user names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holter.cli.job_lookup import check_readable, find_job
from holter.cli.options import Refusal

if TYPE_CHECKING:
    from holter.views.comparison.document import Comparison


def compare_jobs(names: list[str], store: str | None, **how: Any) -> Comparison:
    """Return a comparison, see `holter.views.comparison.document`; raises `Refusal`."""
    from holter.store.trial import Trial
    from holter.views.comparison.document import compare

    folders = [find_job(name, store) for name in names]
    for folder in folders:
        check_readable(folder)
    try:
        return compare([Trial(folder) for folder in folders], **how)
    except ValueError as error:
        raise Refusal(str(error)) from None
