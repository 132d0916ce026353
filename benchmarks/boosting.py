"""What recording XGBoost, LightGBM and scikit-learn costs: CPU time of the training thread, with and without.

    python benchmarks/boosting.py [--rounds 7] [--json]

Each turn is a process of its own, in turn without and with the recorder, so that a busy machine hits both
alike. Printed: the ratio of the medians, for rounds of about 1 and 10 ms. A round of scikit-learn is a
minibatch of a perceptron.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from machine import last_line

ROWS = {"short": 4_000, "long": 60_000}
TRAINING = """
import sys, time
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
began = time.thread_time()
train()
print((time.thread_time() - began) * 10)
"""


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(TRAINING)
        for library in ("xgboost", "lightgbm", "scikit-learn"):
            for length, rows in ROWS.items():
                turns = [
                    [_turn(script, library, rows, options) for options in (None, ["--no-rules"])]
                    for _ in range(given.rounds)
                ]
                without, recorded = (statistics.median(column) for column in zip(*turns, strict=True))
                found[f"{library}, {length}"] = {"round_ms": without, "ratio": recorded / without}
    if given.json:
        print(json.dumps(found))
        return
    print("| training | CPU time of a round | ratio with holter |\n|---|---:|---:|")
    for name, one in found.items():
        print(f"| {name} rounds | {one['round_ms']:.2f} ms | {one['ratio']:.3f} |")


def _turn(script: Path, library: str, rows: int, options: list[str] | None) -> float:
    """Return the CPU time of the training thread per round, ms."""
    return float(last_line([sys.executable, str(script), library, str(rows)], options))


if __name__ == "__main__":
    main()
