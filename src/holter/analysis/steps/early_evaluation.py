"""Makes an evaluation before a training a part of its first step, as evaluations between steps are.

Passes of a model without an optimizer are recorded as steps of prediction, because a script that only
predicts has no others. A script may also evaluate its model first and make the optimizer afterwards.
"""

from __future__ import annotations

import numpy as np

from holter.analysis.steps.warmup import attempts
from holter.schema.table import Table


def with_early_evaluation(steps: Table) -> Table:
    """Return table `steps` without the predictions that precede a training.

    Their time is evaluation of the first step that trains. Steps of a job without training stay.
    """
    predicts = steps["mode"] == "predict"
    if not predicts.any():
        return steps
    keep = np.ones(steps.rows, dtype=bool)
    changed = {name: steps[name].copy() for name in ("time", "duration", "eval", "compile")}
    for rows in attempts(steps):
        trains = np.flatnonzero(steps["mode"][rows] == "train")
        early = rows[: trains[0]] if len(trains) else rows[:0]
        if not len(early) or not predicts[early].all():
            continue
        first, began = rows[trains[0]], changed["time"][early[0]]
        taken = changed["time"][first] - began
        keep[early] = False
        changed["time"][first] = began
        changed["duration"][first] += taken
        changed["eval"][first] += taken
        changed["compile"][first] += changed["compile"][early].sum()
    return Table({**{name: steps[name] for name in steps.names}, **changed}).where(keep)
