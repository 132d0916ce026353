"""Trains XGBoost on a local cluster of Dask whose workers are processes or threads.

Each worker writes what its own clock says; truth.json has it by rank.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import xgboost
import xgboost.dask
from dask.distributed import Client, LocalCluster

ROUNDS, ROWS = 20, 4000
PARAMETERS = {"objective": "binary:logistic", "tree_method": "hist", "max_depth": 4, "nthread": 1}


class Clock(xgboost.callback.TrainingCallback):
    """Notes the rounds of a worker and the time of its work, and takes a while in each round."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.rounds, self.began, self.worked = 0, 0.0, 0.0

    def before_training(self, model: Any) -> Any:
        for name in ("update", "eval_set"):
            setattr(xgboost.Booster, name, self.timed(getattr(xgboost.Booster, name)))
        self.began = time.perf_counter()
        return model

    def timed(self, work: Any) -> Any:
        """Return a method that does the same and adds its time to that of the work."""

        def working(*given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            result = work(*given, **named)
            self.worked += time.perf_counter() - began
            return result

        return working

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        self.rounds += 1
        time.sleep(0.004)
        return False

    def after_training(self, model: Any) -> Any:
        rank = xgboost.collective.get_rank()
        told = {
            "rounds": self.rounds,
            "loop": time.perf_counter() - self.began,
            "worked": self.worked,
            "pid": os.getpid(),
            "world": xgboost.collective.get_world_size(),
        }
        (Path(self.folder) / f"rank-{rank}.json").write_text(json.dumps(told))
        return model


def main(case: str) -> None:
    """Start a cluster and train on it."""
    folder = Path.cwd()
    random = np.random.default_rng(3)
    inputs = random.standard_normal((ROWS, 12))
    labels = (inputs[:, 0] + inputs[:, 1] > 0).astype(int)
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=case == "processes", dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        workers = sorted(client.scheduler_info()["workers"])
        half = ROWS // 2
        parts: list[list[Any]] = [[], []]
        for at, worker in enumerate(workers):
            rows = slice(at * half, (at + 1) * half)
            for kind, whole in enumerate((inputs, labels)):
                future = client.scatter(whole[rows], workers=[worker])
                shape = (half, 12) if kind == 0 else (half,)
                parts[kind].append(dask.array.from_delayed(future, shape, whole.dtype))
        x, y = (dask.array.concatenate(some) for some in parts)
        matrix = xgboost.dask.DaskDMatrix(client, x, y)
        output = xgboost.dask.train(
            client,
            PARAMETERS,
            matrix,
            num_boost_round=ROUNDS,
            evals=[(matrix, "train")],
            callbacks=[Clock(str(folder))],
        )
    ranks = [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in (0, 1)]
    model = hashlib.sha256(output["booster"].save_raw()).hexdigest()
    history = output["history"]["train"]["logloss"]
    (folder / "truth.json").write_text(json.dumps({"ranks": ranks, "model": model, "history": history}))


if __name__ == "__main__":
    main(sys.argv[1])
