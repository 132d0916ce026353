"""Reads from the environment which process of a training this is: its rank, and its run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_LAUNCHERS = (
    ("RANK", "LOCAL_RANK", "WORLD_SIZE"),  # torchrun, accelerate, and what torch.distributed reads
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"),
    ("HOROVOD_RANK", "HOROVOD_LOCAL_RANK", "HOROVOD_SIZE"),  # horovodrun with gloo
    ("JAX_PROCESS_ID", "JAX_LOCAL_PROCESS_ID", "JAX_NUM_PROCESSES"),  # Kubeflow
    ("KERAS_DISTRIBUTION_PROCESS_ID", "", "KERAS_DISTRIBUTION_NUM_PROCESSES"),
)
"""Names of rank, local rank and world size, by launcher; the first one counts: torchrun runs under Slurm."""
_SLURM = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS")
_DMLC = ("DMLC_TASK_ID", "", "DMLC_NUM_WORKER")  # dmlc-tracker: XGBoost, MXNet
_INDEXED = ("JOB_COMPLETION_INDEX", "", "")  # a pod of an Indexed Job of Kubernetes
_TRAINS = ("chief", "master", "worker")
"""Types of TensorFlow's tasks that train, in the order of their ranks."""


def from_environment(environment: Mapping[str, str]) -> dict[str, int | None]:
    """Return `rank`, `local_rank` and `world_size`; None for what the environment does not say."""
    found = next(filter(None, (_read(environment, names) for names in _LAUNCHERS)), None)
    found = found or _tensorflow(environment.get("TF_CONFIG"))
    if not found and environment.get("DMLC_ROLE", "worker") == "worker":
        found = _read(environment, _DMLC)
    # A script of sbatch that starts nothing with srun is one process, though Slurm sets the rank 0 and the
    # number of tasks of the allocation; only a step has SLURM_STEP_NUM_TASKS.
    if not found and "SLURM_STEP_NUM_TASKS" in environment:
        found = _read(environment, _SLURM)
    return found or _read(environment, _INDEXED) or dict.fromkeys(("rank", "local_rank", "world_size"))


def run_from_environment(environment: Mapping[str, str], parent: int) -> str | None:
    """Return the run that this process is a part of, if its launcher starts processes again after a failure.

    All attempts of one run have one text on one node: torchrun restarts its workers and stays their parent.
    """
    if _number(environment.get("TORCHELASTIC_RESTART_COUNT")) is None:
        return None
    return f"torchrun {environment.get('TORCHELASTIC_RUN_ID', '')} {parent}"


def _read(environment: Mapping[str, str], names: tuple[str, str, str]) -> dict[str, int | None] | None:
    rank, local_rank, world_size = (_number(environment.get(name)) for name in names)
    return None if rank is None else {"rank": rank, "local_rank": local_rank, "world_size": world_size}


def _tensorflow(text: str | None) -> dict[str, int | None] | None:
    """Read TF_CONFIG: the chief, if any, is rank 0, and workers follow; other tasks have no rank."""
    try:
        config = json.loads(text or "{}")
        cluster, task = config.get("cluster") or {}, config.get("task") or {}
        tasks = [(kind, at) for kind in _TRAINS for at in range(len(cluster.get(kind) or ()))]
        rank = tasks.index((str(task.get("type")), int(task.get("index") or 0)))
    except (AttributeError, TypeError, ValueError):  # no such task, or no configuration
        return None
    return {"rank": rank, "local_rank": None, "world_size": len(tasks)}


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdecimal() else None
