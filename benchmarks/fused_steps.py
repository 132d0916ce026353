"""What recording TensorFlow costs, and Keras on TensorFlow and JAX: CPU time of a step and of the imports.

    python benchmarks/fused_steps.py [--rounds 7] [--json] [tensorflow | keras-tensorflow | keras-jax …]

Trains in the environments that `scripts/frameworks` makes. Each turn is a process of its own, in turn without
and with the recorder, so that a busy machine hits both alike.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from machine import as_json, compared, described, python_of

HEAD = """
import json, os, sys, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
began = time.thread_time()
import {imports}
imported = time.thread_time() - began
import numpy
width, steps, batch = int(sys.argv[1]), int(sys.argv[2]), 64
random = numpy.random.default_rng(0)
x = random.normal(size=(steps * batch, 64)).astype("float32")
y = random.integers(0, 8, steps * batch)
layers = keras.layers
dense = layers.Dense(width, activation="relu"), layers.Dense(width), layers.Dense(8)
net = keras.Sequential([keras.Input((64,)), *dense])
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
"""
TAIL = """
train()
began = time.thread_time(), time.process_time(), time.perf_counter()
train()
ended = time.thread_time(), time.process_time(), time.perf_counter()
thread, process, wall = (1000 * (end - begin) / steps for begin, end in zip(began, ended))
print(json.dumps({"thread": thread, "process": process, "wall": wall, "import": imported * 1000}))
"""
KERAS = """
net.compile("adam", loss_of)
def train():
    net.fit(x, y, batch_size=batch, verbose=0)
"""
LOOP = """
import tensorflow as tf
optimizer = keras.optimizers.Adam()
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch).prefetch(2)
@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, net(x, training=True))
    optimizer.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
def train():
    for inputs, labels in data:
        train_step(inputs, labels)
"""
TRAININGS = {
    "tensorflow": ("tensorflow", HEAD.format(imports="tensorflow, keras") + LOOP + TAIL),
    "keras-tensorflow": ("tensorflow", HEAD.format(imports="keras") + KERAS + TAIL),
    "keras-jax": ("keras-jax", HEAD.format(imports="keras") + KERAS + TAIL),
}
SIZES = {"short": (32, 1000), "long": (1024, 300)}
"""Width of the layers, and steps that are measured."""


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trainings", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in given.trainings or TRAININGS:
            environment, text = TRAININGS[name]
            script = Path(folder) / "train.py"
            backend = "jax" if environment == "keras-jax" else "tensorflow"
            script.write_text(f'import os\nos.environ["KERAS_BACKEND"] = "{backend}"\n{text}')
            for length, (width, steps) in SIZES.items():
                command = [python_of(environment), str(script), str(width), str(steps)]
                found[f"{name}, {length} steps"] = compared(command, given.rounds)
    if given.json:
        print(as_json(found))
        return
    print(
        "| training | a step | CPU time of its thread | ratio with holter | of the process | import | ratio |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, one in found.items():
        step, thread, imported = one["wall"], one["thread"], one["import"]
        cells = (
            f"{step.bare:.2f} ms", f"{thread.bare:.2f} ms", thread, one["process"],
            f"{imported.bare:.0f} ms", imported,
        )  # fmt: skip
        print(f"| {name} | {' | '.join(map(str, cells))} |")
    print(f"\n{described()}")


if __name__ == "__main__":
    main()
