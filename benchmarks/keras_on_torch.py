"""What recording Keras on torch costs: CPU time of a batch with and without holter, and of attaching.

    python benchmarks/keras_on_torch.py [--rounds 7] [--json]

Trains in the environment that `scripts/frameworks keras` makes. Each turn is a process of its own, in turn
without and with the recorder, so that a busy machine hits both alike.
"""

from __future__ import annotations

import argparse
import compileall
import tempfile
from pathlib import Path

from machine import HERE, as_json, compared, described, last_line, python_of

WIDTHS = {"short": 32, "long": 1024}
TRAINING = """
import json, os, sys, time
os.environ["KERAS_BACKEND"] = "torch"
import keras, numpy, torch
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
print(json.dumps({"thread": thread, "process": process}))
"""
ATTACHING = """
import os, time
os.environ["KERAS_BACKEND"] = "torch"
import torch
from holter.recorder import imports
attach = imports._attach
def timed(module):
    began = time.thread_time()
    attach(module)
    print((time.thread_time() - began) * 1000)
imports._attach = timed
import keras
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
        attaching = attached(Path(folder) / "attach.py", given.rounds)
    if given.json:
        print(as_json(found))
        return
    print("| training | CPU time of a batch | ratio with holter | of the process |\n|---|---:|---:|---:|")
    for name, one in found.items():
        print(f"| {name} batches | {one['thread'].bare:.2f} ms | {one['thread']} | {one['process']} |")
    print(f"\nattaching: {min(attaching):.1f} to {max(attaching):.1f} ms of CPU time\n\n{described()}")


def attached(script: Path, rounds: int) -> list[float]:
    """Return how long it takes to attach to Keras once it is loaded, ms of CPU time, in some processes."""
    # As where holter was installed: there, the recorder's modules are compiled already.
    compileall.compile_dir(HERE.parent / "src/holter/recorder", quiet=1)
    script.write_text(ATTACHING)
    return [float(last_line([python_of("keras"), str(script)], ["--no-rules"])) for _ in range(rounds)]


if __name__ == "__main__":
    main()
