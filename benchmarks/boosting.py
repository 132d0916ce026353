"""What recording libraries of trees and scikit-learn costs: CPU time of rounds with and without holter.

    python benchmarks/boosting.py [--rounds 7] [--json] [LIBRARY…]

Each turn is a process of its own, in turn without and with the recorder, so that a busy machine hits both
alike. Printed: the median ratio of the turns and the middle half, of the training thread and of the process
with the recorder's threads, for short and long rounds. A round of scikit-learn is a minibatch of a
perceptron. CatBoost trains in the environment that `scripts/frameworks catboost` makes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from machine import as_json, compared, described, python_of

LIBRARIES = ("xgboost", "lightgbm", "catboost", "scikit-learn")
ROWS = {"short": 4_000, "long": 60_000}
TRAINING = """
import json, sys, time
import numpy as np
library, rows = sys.argv[1], int(sys.argv[2])
random = np.random.default_rng(0)
table = random.normal(size=(rows, 20))
labels = (table[:, 0] + table[:, 1] * table[:, 2] > 0).astype(int)
cut = rows * 9 // 10
if library == "xgboost":
    import xgboost
    data, held = xgboost.DMatrix(table[:cut], labels[:cut]), xgboost.DMatrix(table[cut:], labels[cut:])
    asked = {"objective": "binary:logistic", "nthread": 1}
    train = lambda: xgboost.train(asked, data, 100, evals=[(held, "validation")], verbose_eval=False)
elif library == "catboost":
    import catboost
    data, held = catboost.Pool(table[:cut], labels[:cut]), catboost.Pool(table[cut:], labels[cut:])
    asked = {"iterations": 100, "thread_count": 1, "verbose": False, "loss_function": "Logloss"}
    train = lambda: catboost.train(data, asked, eval_set=held)
elif library == "scikit-learn":
    from sklearn.neural_network import MLPClassifier
    model = MLPClassifier(hidden_layer_sizes=(32,), batch_size=cut // 20, max_iter=5, random_state=0)
    train = lambda: model.fit(table[:cut], labels[:cut])
else:
    import lightgbm
    data = lightgbm.Dataset(table[:cut], labels[:cut]).construct()
    held = lightgbm.Dataset(table[cut:], labels[cut:], reference=data).construct()
    asked = {"objective": "binary", "num_threads": 1, "verbose": -1}
    train = lambda: lightgbm.train(asked, data, 100, valid_sets=[held])
train()
began = time.thread_time(), time.process_time()
train()
ended = time.thread_time(), time.process_time()
print(json.dumps(dict(zip(("thread", "process"), (10 * (end - begin) for begin, end in zip(began, ended))))))
"""


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", nargs="*", choices=[*LIBRARIES, []], help="only these")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(TRAINING)
        for library in given.library or LIBRARIES:
            python = python_of(library) if library == "catboost" else sys.executable
            for length, rows in ROWS.items():
                found[f"{library}, {length}"] = compared(
                    [python, str(script), library, str(rows)], given.rounds
                )
    if given.json:
        print(as_json(found))
        return
    print("| training | CPU time of a round | ratio with holter | of the process |\n|---|---:|---:|---:|")
    for name, one in found.items():
        print(f"| {name} rounds | {one['thread'].bare:.2f} ms | {one['thread']} | {one['process']} |")
    print(f"\n{described()}")


if __name__ == "__main__":
    main()
