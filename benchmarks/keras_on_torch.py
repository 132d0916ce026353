"""What recording Keras on torch costs: CPU time of a batch with and without holter, and of attaching.

    python benchmarks/keras_on_torch.py [--rounds 12]

Trains in the environment that `scripts/frameworks keras` makes, in one process under `holter run`, in turn
without the recorder's hooks and with them: processes differ by some percent, and a busy machine hits both
alike. The lower quartile of the batches leaves out those that other programs disturb. The first batches after
each change, in which the recorder learns the models, are left out, too.
"""

from __future__ import annotations

import argparse
import compileall
import json
import tempfile
from pathlib import Path

from machine import HERE, described, last_line, python_of

WIDTHS = {"short": 32, "long": 1024}
TRAINING = """
import json, os, statistics, sys, time
os.environ["KERAS_BACKEND"] = "torch"
import keras, numpy, torch
from holter.recorder import session
torch.set_num_threads(1)
width, rounds = map(int, sys.argv[1:])
random = numpy.random.default_rng(0)
x, y = random.normal(size=(64 * 60, 64)).astype("float32"), random.integers(0, 8, 64 * 60)
layers = keras.layers
net = keras.Sequential([layers.Dense(width, activation="relu"), layers.Dense(width), layers.Dense(8)])
net.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
begins = []
listed = keras.src.callbacks.callback_list.CallbackList
original = listed.on_train_batch_begin
def begin(self, *args, **kwargs):
    begins.append(time.thread_time_ns())
    return original(self, *args, **kwargs)
listed.on_train_batch_begin = begin
recording = session.current
def detach():
    for one in reversed(list(recording._detachers.values())):
        one()
    recording._detachers.clear()
def attach():
    for name in ("pytorch", "keras"):
        recording.attach(name)
found = {"without": [], "with": []}
for _ in range(rounds):
    for kind, change in (("without", detach), ("with", attach)):
        change()
        net.fit(x[:640], y[:640], batch_size=64, verbose=0)
        begins.clear()
        net.fit(x, y, batch_size=64, verbose=0)
        found[kind] += [(end - start) / 1e6 for start, end in zip(begins[1:], begins[2:])]
print(json.dumps({kind: statistics.quantiles(times, n=4)[:2] for kind, times in found.items()}))
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
OPTIONS = ["--no-rules", "--look", "never"]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    given = parser.parse_args()
    # As where holter was installed: there, the recorder's modules are compiled already.
    compileall.compile_dir(HERE.parent / "src/holter/recorder", quiet=1)
    print("| training | CPU time of a batch | ratio with holter | of the medians |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        for name, width in WIDTHS.items():
            found = json.loads(_printed(script, TRAINING, str(width), str(given.rounds)))
            (low, middle), (recorded_low, recorded_middle) = found["without"], found["with"]
            ratios = f"{recorded_low / low:.3f} | {recorded_middle / middle:.3f}"
            print(f"| {name} batches | {low:.2f} ms | {ratios} |", flush=True)
        attaching = [float(_printed(script, ATTACHING)) for _ in range(5)]
    print(f"\nattaching: {min(attaching):.1f} to {max(attaching):.1f} ms of CPU time\n\n{described()}")


def _printed(script: Path, text: str, *arguments: str) -> str:
    """Run a script under `holter run`; return the last line that it prints."""
    script.write_text(text)
    return last_line([python_of("keras"), str(script), *arguments], OPTIONS)


if __name__ == "__main__":
    main()
