"""Finds the job that a user names: by `latest`, a name, the start of a name, a path or a URL."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holter.store.job import JobNotFound, at, find, jobs, store_url

if TYPE_CHECKING:
    from holter.store.job import JobFolder

LATEST = "latest"
_MOST_NAMED = 5


def named(text: str, store: str | None = None) -> JobFolder:
    """Return the job that `text` names, in `store` or the default store; a path or URL needs no store.

    Raises:
        JobNotFound: No job, or several, have this name; the text names the store and near names.
        OSError: The store cannot be read.
        ValueError: The URL of the store is not valid.
    """
    url = store_url(store)
    if "/" in text or (os.path.isfile(os.path.join(text, "job.json")) and store is None):
        return at(text)
    known = jobs(url)
    if text == LATEST:
        if not known:
            raise JobNotFound(f"no job in store {url} yet; record one: holter run -- python train.py")
        return known[0]
    starting = [job for job in known if job.name.startswith(text)]
    if len(starting) == 1:
        return starting[0]
    if starting and all(job.name != text for job in starting):
        names = ", ".join(job.name for job in starting[:_MOST_NAMED])
        more = ", ..." if len(starting) > _MOST_NAMED else ""
        raise JobNotFound(f"{text!r} is the start of {len(starting)} jobs: {names}{more}")
    return find(url, text)
