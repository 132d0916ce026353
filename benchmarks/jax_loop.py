"""What recording JAX costs: time of a step and of the import, with and without.

    python benchmarks/jax_loop.py [--rounds 7] [--json]

Trains in the environment that `scripts/frameworks jax` makes. Each turn is a process of its own, in turn
without and with the recorder, so that a busy machine hits both alike. Printed: CPU time of the training
thread and of the process, for steps of about 10 ms that read their loss, and for steps of a tiny model.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from machine import as_json, compared, described, python_of

WIDTHS = {"10 ms steps": 768, "tiny steps": 8}
TRAINING = """
import json, os, sys, time
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
began = time.thread_time()
import jax
imported = time.thread_time() - began
import numpy as np, optax
width = int(sys.argv[1])
random = np.random.default_rng(0)
x, y = random.normal(size=(64, 64)).astype("float32"), random.integers(0, 8, 64)
params = {"a": random.normal(size=(64, width)).astype("float32") / 8,
          "b": random.normal(size=(width, width)).astype("float32") / width**0.5,
          "c": random.normal(size=(width, 8)).astype("float32") / width**0.5}
adam = optax.adam(1e-3)
state = adam.init(params)
def loss_of(params, x, y):
    h = jax.nn.relu(jax.nn.relu(x @ params["a"]) @ params["b"]) @ params["c"]
    return optax.softmax_cross_entropy_with_integer_labels(h, y).mean()
@jax.jit
def train_step(params, state, x, y):
    loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
    updates, state = adam.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, loss
def train(steps):
    global params, state
    for _ in range(steps):
        params, state, loss = train_step(params, state, x, y)
        float(loss)
train(100)
steps = 300 if width > 100 else 5000
began = time.thread_time(), time.process_time(), time.perf_counter()
train(steps)
ended = time.thread_time(), time.process_time(), time.perf_counter()
took = [1000 * (one - other) / steps for one, other in zip(ended, began)]
print(json.dumps({"thread": took[0], "process": took[1], "wall": took[2], "import": 1000 * imported}))
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
            name: compared([python_of("jax"), str(script), str(width)], given.rounds)
            for name, width in WIDTHS.items()
        }
    if given.json:
        sys.stdout.write(as_json(found) + "\n")
        return
    print(
        "| training | wall time of a step | CPU of the thread, ms | ratio | ratio of the process | import, "
        "ms | more |\n|---|---:|---:|---:|---:|---:|---:|"
    )
    for name, one in found.items():
        more = one["import"].bare * (one["import"].ratio - 1)
        print(
            f"| {name} | {one['wall'].bare:.2f} ms | {one['thread'].bare:.3f} | {one['thread']} | "
            f"{one['process']} | {one['import'].bare:.0f} | {more:+.1f} |"
        )
    print(f"\n{described()}")


if __name__ == "__main__":
    main()
