"""Recognizes the launch over several nodes that a command is part of, from its words and environment."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from holter.agent.machine.scheduler import slurm_job

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TORCHRUN = {"torchrun", "torch.distributed.run", "torch.distributed.launch"}
_ACCELERATE = {"accelerate", "accelerate-launch", "accelerate.commands.launch"}
_PORT = "29500"
"""Default rendezvous endpoint of PyTorch's launchers."""


class Launch(NamedTuple):
    """One training that is started on several nodes, each with a command of its own."""

    id: str
    """The same text on every node of one launch."""
    nodes: int | None
    """How many nodes there are at least; None when nobody says."""
    label: str = ""
    """What tells it from other launches and may stand in a job's name; empty when only the place is known."""


def launch(command: Sequence[str], variables: Mapping[str, str]) -> Launch | None:
    """Return the launch over several nodes that a command belongs to; None for a launch on one node.

    It recognizes srun (Slurm), torchrun and `accelerate launch` by their options, mpirun, and plain scripts
    by the variables of `torch.distributed`.
    """
    names = [os.path.basename(word) for word in command]
    if (nodes := _number(variables.get("SLURM_STEP_NUM_NODES"))) > 1 and "SLURM_JOB_ID" in variables:
        ids = [slurm_job(variables), *filter(None, [variables.get("SLURM_STEP_ID")])]
        again = _restart(variables)
        return Launch(f"slurm {'.'.join(ids)}{again}", nodes, "-".join(ids) + again)
    if _TORCHRUN.intersection(names):
        return _torchrun(command, variables)
    if _ACCELERATE.intersection(names):
        nodes = _number(_option(command, "num-machines"))
        address = _option(command, "main-process-ip") or "", _option(command, "main-process-port") or _PORT
        return Launch(f"accelerate {':'.join(address)}", nodes) if nodes > 1 and address[0] else None
    if _number(variables.get("OMPI_COMM_WORLD_SIZE")) > 1 and (space := variables.get("PMIX_NAMESPACE")):
        return Launch(f"mpi {space}", None)
    if _number(variables.get("WORLD_SIZE")) > 1 and (master := variables.get("MASTER_ADDR")):
        run = variables.get("TORCHELASTIC_RUN_ID", "")
        return Launch(f"torch {run}@{master}:{variables.get('MASTER_PORT', _PORT)}", None)
    return None


def slurm_label(variables: Mapping[str, str]) -> str:
    """Return what names a job of one node inside of Slurm: its number and how often it was requeued."""
    return slurm_job(variables) + _restart(variables)


def _restart(variables: Mapping[str, str]) -> str:
    """Return the part of a name that tells the attempts of a requeued Slurm job apart."""
    restarts = _number(variables.get("SLURM_RESTART_COUNT"))
    return f"-r{restarts}" if restarts and variables.get("SLURM_JOB_ID") else ""


def _torchrun(command: Sequence[str], variables: Mapping[str, str]) -> Launch | None:
    """Read torchrun's options, which may also stand in the environment as PET_NNODES and so on."""

    def said(name: str) -> str | None:
        return _option(command, name) or variables.get(f"PET_{name.replace('-', '_').upper()}")

    least, _, most = (said("nnodes") or "1").partition(":")
    if max(_number(least), _number(most)) <= 1 or "--standalone" in command:
        return None
    run = said("rdzv-id") or "none"
    master = said("master-addr") or "127.0.0.1"
    meeting = said("rdzv-endpoint") or f"{master}:{said('master-port') or _PORT}"
    return Launch(f"torchrun {run}@{meeting}", _number(least), "" if run == "none" else run)


def _option(command: Sequence[str], name: str) -> str | None:
    """Return the value of a launcher's option, written `--a-b V`, `--a-b=V` or with underscores."""
    for word, following in zip(command, [*command[1:], ""], strict=True):
        option, equals, value = word.partition("=")
        if re.fullmatch(r"--?[a-z][a-z_-]*", option) and option.lstrip("-").replace("_", "-") == name:
            return value if equals else following
        if word.endswith(".py"):  # what follows is the script's
            break
    return None


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0
