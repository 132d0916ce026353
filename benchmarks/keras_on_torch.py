"""What recording Keras on torch costs: CPU time of a batch and of the import, with and without.

    python benchmarks/keras_on_torch.py [--rounds 7] [--json]

Trains in the environment that `scripts/frameworks keras` makes. Each turn is a process of its own, in turn
without and with the recorder, so that a busy machine hits both alike.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from machine import as_json, compared, described, python_of

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
began = time.thread_time(), time.process_time()
net.fit(x, y, batch_size=64, verbose=0)
ended = time.thread_time(), time.process_time()
thread, process = (5 * (end - begin) for begin, end in zip(began, ended))
print(json.dumps({"thread": thread, "process": process, "import": imported * 1000}))
"""


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(TRAINING)
        found = {
            length: compared([python_of("keras"), str(script), str(width)], given.rounds)
            for length, width in WIDTHS.items()
        }
    if given.json:
        print(as_json(found))
        return
    print("| training | CPU time of a batch | ratio with holter | of the process | import | ratio |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, one in found.items():
        batch, imported = one["thread"], one["import"]
        cells = (f"{batch.bare:.2f} ms", batch, one["process"], f"{imported.bare:.0f} ms", imported)
        print(f"| {name} batches | {' | '.join(map(str, cells))} |")
    print(f"\n{described()}")


if __name__ == "__main__":
    main()
