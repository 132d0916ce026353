"""Keeps trainings of one script apart, whose processes would otherwise look like ranks of one training.

A job has the first trial of Ray Tune, and the runs of Ray Train that do not begin beside another one.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from holter.recorder import imports
from holter.recorder.patches import Patches

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.session import Session

TRIAL, RUN = "trial of Ray Tune", "run of Ray Train"


def attach(session: Session) -> Callable[[], None]:
    """Record the first trial; return a function that removes the hook."""
    patches = Patches()

    def begins(result: object, trial: Any, *_: object, **__: object) -> None:
        enter(session, TRIAL, str(trial.trial_id))

    owner = sys.modules["ray.tune.trainable.trainable"].Trainable
    patches.after(owner, "__init__", begins, session.breaker("ray.tune"))
    return patches.undo


def enter(session: Session, kind: str, name: str) -> bool:
    """Record this process as part of a training, or stop recording it because the job has another one."""
    path = os.path.join(session.spool.directory, f"{kind.replace(' ', '-')}.json")
    other = claim(path, name, os.getpid(), alone=kind == TRIAL)
    if other is None:
        return True
    session.open()
    session.journal("left_out", {"kind": kind, "name": name, "recorded": other})
    imports.uninstall()
    session.close()
    return False


def claim(path: str, name: str, pid: int, *, alone: bool = False) -> str | None:
    """Let `pid` take part in the training called `name`; return the name of another one that keeps it out.

    Another one does so while one of its processes lives, or for good if the job has it `alone`.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with os.fdopen(os.dup(descriptor), "r+") as file:
            known = json.loads(file.read() or "{}")
            pids = [one for one in known.get("pids", ()) if alone or _lives(one)]
            if pids and known["name"] != name:
                return str(known["name"])
            file.seek(0)
            file.truncate()
            json.dump({"name": name, "pids": [*(one for one in pids if one != pid), pid]}, file)
    finally:
        os.close(descriptor)
    return None


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True
