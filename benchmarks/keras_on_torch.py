"""What recording Keras on torch costs: CPU time of a batch and of the import, with and without.

    python benchmarks/keras_on_torch.py [--rounds 7] [--json]

Trains in the environment that `scripts/frameworks keras` makes. Each turn is a process of its own, in turn
without and with the recorder, so that a busy machine hits both alike.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path

from machine import HERE, last_line

KERAS = Path(os.environ.get("HOLTER_FRAMEWORKS") or HERE.parent / ".frameworks") / "keras/bin/python"
WIDTHS = {"short": 32, "long": 1024}
TRAINING = """
import json, os, sys, time
os.environ["KERAS_BACKEND"] = "torch"
import torch
began = time.thread_time()
import keras
imported = time.thread_time() - began
import numpy
torch.set_num_threads(1)
random = numpy.random.default_rng(0)
x, y = random.normal(size=(12800, 64)).astype("float32"), random.integers(0, 8, 12800)
width = int(sys.argv[1])
layers = keras.layers
net = keras.Sequential([layers.Dense(width, activation="relu"), layers.Dense(width), layers.Dense(8)])
net.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
net.fit(x, y, batch_size=64, verbose=0)
began = time.thread_time()
net.fit(x, y, batch_size=64, verbose=0)
print(json.dumps([(time.thread_time() - began) * 5, imported * 1000]))
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
        for length, width in WIDTHS.items():
            turns = [
                [_turn(script, width, options) for options in (None, ["--no-rules"])]
                for _ in range(given.rounds)
            ]
            batch, imported = (
                [statistics.median(turn[recorded][at] for turn in turns) for recorded in (0, 1)]
                for at in (0, 1)
            )
            found[length] = {
                "batch_ms": batch[0],
                "ratio": batch[1] / batch[0],
                "import_ms": imported[0],
                "import_more_ms": imported[1] - imported[0],
            }
    if given.json:
        print(json.dumps(found))
        return
    print("| training | CPU time of a batch | ratio with holter | import | more with holter |")
    print("|---|---:|---:|---:|---:|")
    for name, one in found.items():
        print(
            f"| {name} batches | {one['batch_ms']:.2f} ms | {one['ratio']:.3f} | {one['import_ms']:.0f} ms | "
            f"{one['import_more_ms']:.0f} ms |"
        )


def _turn(script: Path, width: int, options: list[str] | None) -> list[float]:
    """Return the CPU time of the training thread per batch and of the import, ms."""
    found: list[float] = json.loads(last_line([str(KERAS), str(script), str(width)], options))
    return found


if __name__ == "__main__":
    main()
