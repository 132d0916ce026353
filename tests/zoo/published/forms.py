"""Eight silent errors that others reproduced from public issues, in forms that run on a CPU in seconds."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


class Form(NamedTuple):
    """A training with one mistake."""

    name: str
    error: str
    rule: str
    """The rule that names the mistake."""
    twin: str
    """The same training without the mistake."""

    @property
    def script(self) -> str:
        """The file name of its script."""
        return script_of(self.name)


FORMS = [
    Form("frozen", "everything but batch norm is frozen, the head too", "WeightsNotTrained", "healthy"),
    Form("no_zero_grad", "`zero_grad()` is missing", "MissingZeroGrad", "healthy"),
    Form("eval_dropout", "dropout is active in evaluations", "DropoutInEvaluation", "healthy"),
    Form("same_augment", "all workers draw the same random numbers", "RepeatedBatches", "own_augment"),
    Form("lost_hooks", "DDP loses its hooks as the model changes its type", "ReplicasDiffer", "good"),
    Form("unwrapped", "the training calls the model inside DDP", "ReplicasDiffer", "good"),
    Form("local_clip", "only rank 0 clips its gradients", "ReplicasDiffer", "good"),
    Form("lossy", "rank 1 loses a gradient now and then", "ReplicasDiffer", "good"),
]
TWINS = sorted({form.twin for form in FORMS})


def script_of(name: str) -> str:
    """Return the file name of the script that knows a form."""
    of_ranks = {"good", *(form.name for form in FORMS if form.twin == "good")}
    return "ranks.py" if name in of_ranks else "alone.py"


def command(name: str, seed: int = 0, python: str = sys.executable, folder: Path = HERE) -> list[str]:
    """Return the command that trains one form."""
    script = script_of(name)
    launcher = TORCHRUN if script == "ranks.py" else ()
    return [python, *launcher, str(folder / script), name, str(seed)]


def measured(output: str) -> dict[str, Any]:
    """Return what a training printed about itself: the step of its mistake, and what its loop took."""
    return dict(json.loads(re.findall(r'\{"cause".*?\}', output)[-1]))
