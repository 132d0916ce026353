"""Reads the rank of this process from the environment."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_LAUNCHERS = (
    ("RANK", "LOCAL_RANK", "WORLD_SIZE"),  # torchrun, accelerate, and what torch.distributed reads
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"),
    ("JAX_PROCESS_ID", "JAX_LOCAL_PROCESS_ID", "JAX_NUM_PROCESSES"),  # Kubeflow
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
)
"""Names of rank, local rank and world size, by launcher; the first one counts: torchrun runs under Slurm."""
_TRAINS = ("chief", "master", "worker")
"""Kinds of tasks of TensorFlow that train, in the order of their ranks."""


def from_environment(environment: Mapping[str, str]) -> dict[str, int | None]:
    """Return `rank`, `local_rank` and `world_size`; None for what the environment does not say."""
    for rank, local_rank, world_size in _LAUNCHERS:
        if _number(environment.get(rank)) is not None:
            return {
                "rank": _number(environment.get(rank)),
                "local_rank": _number(environment.get(local_rank)),
                "world_size": _number(environment.get(world_size)),
            }
    rank_, size = _of_tensorflow(environment.get("TF_CONFIG"))
    return {"rank": rank_, "local_rank": None, "world_size": size}


def _of_tensorflow(text: str | None) -> tuple[int | None, int | None]:
    """Return rank and world size of a task of TensorFlow; None for evaluators and parameter servers."""
    try:
        config = json.loads(text or "{}")
        cluster, task = config.get("cluster") or {}, config.get("task") or {}
        tasks = [(kind, at) for kind in _TRAINS for at in range(len(cluster.get(kind) or ()))]
        return tasks.index((task.get("type"), int(task.get("index") or 0))), len(tasks)
    except (AttributeError, TypeError, ValueError):  # no such task, or no configuration
        return None, None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdecimal() else None
