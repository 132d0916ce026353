"""Reads which job of a cluster's scheduler this is, and when the scheduler ends it."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.store.document_types import SchedulerEntry

_ASK_S = 5.0
_LONGEST_S = 10 * 365 * 86400
"""Slurm writes an end a year ahead for a job without a limit."""


def scheduler(variables: Mapping[str, str]) -> SchedulerEntry | None:
    """Return the scheduler's job that this process runs in; None outside of a known scheduler.

    It reads the environment only: Slurm, and a training job of SageMaker or an Indexed Job of Kubernetes.
    """
    if job := variables.get("SLURM_JOB_ID"):
        found: SchedulerEntry = {
            "name": "slurm",
            "job": slurm_job(variables) or job,
            "restarts": _number(variables.get("SLURM_RESTART_COUNT")) or 0,
        }
        if (step := variables.get("SLURM_STEP_ID")) is not None:
            found["step"] = step
        if end := _number(variables.get("SLURM_JOB_END_TIME")):  # Slurm 23.02 and later
            found["ends"] = end * 10**9
        return found
    if job := variables.get("TRAINING_JOB_NAME"):
        return {"name": "sagemaker", "job": job}
    if "KUBERNETES_SERVICE_HOST" in variables and (index := variables.get("JOB_COMPLETION_INDEX")):
        # The name of a pod of an Indexed Job is that of the job, the index, and five random characters.
        pod, _, _ = variables.get("HOSTNAME", "").rpartition("-")
        return {"name": "kubernetes", "job": pod.removesuffix(f"-{index}") or "job", "step": index}
    return None


def slurm_job(variables: Mapping[str, str]) -> str:
    """Return the number of a Slurm job as users write it: `7_3` for task 3 of array 7; empty without one."""
    array, task = variables.get("SLURM_ARRAY_JOB_ID"), variables.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else variables.get("SLURM_JOB_ID", "")


def ends(entry: SchedulerEntry, variables: Mapping[str, str], now_ns: int) -> int | None:
    """Return when the scheduler ends the job, ns since the epoch; None if it does not say.

    A Slurm before 23.02 does not set SLURM_JOB_END_TIME, so its command squeue is run once.
    """
    moment = entry.get("ends")
    if moment is None and entry["name"] == "slurm":
        moment = _squeue_end(variables)
    return moment if moment is not None and 0 < moment - now_ns < _LONGEST_S * 10**9 else None


def _squeue_end(variables: Mapping[str, str]) -> int | None:
    program = shutil.which("squeue", path=variables.get("PATH", os.defpath))
    if program is None:
        return None
    words = [program, "--noheader", "--format=%e", "--jobs", slurm_job(variables)]
    try:
        done = subprocess.run(
            words,
            env={**variables, "SLURM_TIME_FORMAT": "%s"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ASK_S,
            check=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    seconds = _number(done.stdout.strip())  # a word for a job without a limit
    return None if seconds is None else seconds * 10**9


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
