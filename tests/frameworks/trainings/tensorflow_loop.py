"""Trains with loops of its own on TensorFlow as the argument says; writes what happened to truth.json."""

import glob
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(1)
BATCH, FEATURES, CLASSES = 32, 48, 8
PARTS = ("data_loading", "compute", "backward", "optimizer", "eval", "checkpoint")
took = dict.fromkeys(PARTS, 0.0)
compute_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class Clock:
    """Adds the time of a block to a part."""

    def __init__(self, part):
        self.part = part

    def __enter__(self):
        self.begin = time.perf_counter()

    def __exit__(self, *error):
        took[self.part] += time.perf_counter() - self.begin


def data(batches):
    random = np.random.default_rng(0)
    x = random.normal(size=(batches * BATCH, FEATURES)).astype("float32")
    return x, x[:, :CLASSES].argmax(1).astype("int64")


def model(width=64, layers=1):
    dense = [keras.layers.Dense(width, activation="relu") for _ in range(layers)]
    return keras.Sequential([keras.Input((FEATURES,)), *dense, keras.layers.Dense(CLASSES)])


def weights(*models):
    digest = hashlib.sha256()
    for one in models:
        for value in one.get_weights():
            digest.update(value.tobytes())
    return digest.hexdigest()


def fetched(batches):
    """Yield batches, and clock the wait for each."""
    with Clock("data_loading"):
        iterator = iter(batches)
    while True:
        with Clock("data_loading"):
            batch = next(iterator, None)
        if batch is None:
            return
        yield batch


def between(marks):
    """Return the time from the last batch of the first epoch to the last batch of all, and its parts."""
    (begin, before), (end, after) = marks[0], marks[-1]
    return {"took": {part: after[part] - before[part] for part in PARTS}, "whole": end - begin}


def step_of(net, optimizer):
    """Return a compiled step."""

    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = compute_loss(y, net(x, training=True))
        gradients = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
        return loss

    return train_step


def graph():
    """Compiled steps on a slow pipeline, with an evaluation and a checkpoint after each epoch."""
    x, y = data(40)
    net, optimizer = model(1024, layers=2), keras.optimizers.Adam(0.003)
    train_step = step_of(net, optimizer)
    accuracy = keras.metrics.SparseCategoricalAccuracy()

    @tf.function
    def test_step(x, y):
        accuracy.update_state(y, net(x, training=False))

    def decode(x, y):
        return tf.py_function(lambda value: (time.sleep(0.0005), value)[1], [x], tf.float32), y

    pairs = tf.data.Dataset.from_tensor_slices((x, y))
    train = pairs.map(decode).batch(BATCH)
    test = pairs.batch(BATCH)
    checkpoint = tf.train.Checkpoint(model=net, optimizer=optimizer)
    manager = tf.train.CheckpointManager(checkpoint, "saved", max_to_keep=2)
    losses, marks = [], []
    for _ in range(4):
        for inputs, labels in fetched(train):
            with Clock("compute"):
                loss = train_step(inputs, labels)
            ended = time.perf_counter(), dict(took)
            losses.append(float(loss))
        marks.append(ended)
        with Clock("eval"):
            for inputs, labels in test:
                test_step(inputs, labels)
        with Clock("checkpoint"):
            manager.save()
    return {"steps": 160, "losses": losses, "accuracy": float(accuracy.result()), **between(marks),
            "model": weights(net)}  # fmt: skip


def eager():
    """Eager steps with a tape and an optimizer of Keras."""
    x, y = data(40)
    net, optimizer = model(256, layers=2), keras.optimizers.Adam(0.003)
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH).prefetch(2)
    losses, marks = [], []
    for _ in range(3):
        for inputs, labels in fetched(batches):
            with Clock("compute"), tf.GradientTape() as tape:
                loss = compute_loss(labels, net(inputs, training=True))
            with Clock("backward"):
                gradients = tape.gradient(loss, net.trainable_variables)
            with Clock("optimizer"):
                optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
            if len(losses) == 100:
                kernels = sorted(float(one.mean(dtype="float64")) for one in net.get_weights()[::2])
                taken = sorted(float(one.numpy().mean(dtype="float64")) for one in gradients[::2])
            ended = time.perf_counter(), dict(took)
            losses.append(float(loss))
        marks.append(ended)
    return {"steps": 120, "losses": losses, **between(marks), "model": weights(net), "kernels": kernels,
            "gradients": taken}  # fmt: skip


def by_hand():
    """Eager steps that update variables themselves, within the tape, and penalize an inner gradient."""
    x, y = data(30)
    weight = tf.Variable(tf.zeros((FEATURES, CLASSES)))
    for at in range(0, len(x), BATCH):
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                loss = compute_loss(y[at : at + BATCH], x[at : at + BATCH] @ weight)
            penalty = tf.reduce_sum(inner.gradient(loss, weight) ** 2)
            weight.assign_sub(0.1 * tape.gradient(loss + penalty, weight))
    return {"steps": 30, "model": hashlib.sha256(weight.numpy().tobytes()).hexdigest()}


def in_turn():
    """Two functions that train in turn, and a helper that reads no variables."""
    x, y = data(40)
    first, second = model(), model(32)
    one, two = step_of(first, keras.optimizers.SGD(0.01)), step_of(second, keras.optimizers.SGD(0.01))

    @tf.function
    def shift(x):
        return x + 0.1

    for inputs, labels in tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH):
        moved = shift(inputs)
        one(moved, labels)
        two(inputs, labels)
    return {"steps": 40, "model": weights(first, second)}


def retraced():
    """A step that is traced again: for each length of its input, and for each Python number."""
    x, y = data(10)
    net, optimizer = model(), keras.optimizers.SGD(0.01)

    @tf.function
    def train_step(x, y, scale):
        with tf.GradientTape() as tape:
            loss = scale * compute_loss(y, net(x, training=True))
        gradients = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
        return loss

    for number in range(30):
        length = BATCH - number // 10
        train_step(tf.constant(x[:length]), tf.constant(y[:length]), 1.0 if number < 25 else 0.5)
    return {"steps": 30, "model": weights(net)}


def distributed(strategy, batches):
    """Train with a strategy on slow batches."""
    x, y = data(batches)
    with strategy.scope():
        net, optimizer = model(), keras.optimizers.SGD(0.01)

    @tf.function
    def train_step(x, y):
        def replica(x, y):
            with tf.GradientTape() as tape:
                losses = keras.losses.sparse_categorical_crossentropy(y, net(x), from_logits=True)
                loss = tf.reduce_mean(losses)
            gradients = tape.gradient(loss, net.trainable_variables)
            optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
            return loss

        return strategy.reduce("SUM", strategy.run(replica, args=(x, y)), axis=None)

    def slow(x, y):
        return tf.py_function(lambda value: (time.sleep(0.0005), value)[1], [x], tf.float32), y

    def shaped(x, y):
        return tf.ensure_shape(x, (None, FEATURES)), y

    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    pairs = tf.data.Dataset.from_tensor_slices((x, y)).map(slow).batch(BATCH, drop_remainder=True)
    pairs = pairs.map(shaped).with_options(options)
    batches_of_all = strategy.experimental_distribute_dataset(pairs)
    marks = []
    for _ in range(2):
        for inputs, labels in fetched(batches_of_all):
            with Clock("compute"):
                float(train_step(inputs, labels))
            ended = time.perf_counter(), dict(took)
        marks.append(ended)
    return {"steps": 2 * batches, **between(marks), "model": weights(net)}


def mirrored():
    """Two devices of one process."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return distributed(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), 40)


def worker():
    """One of two processes that `TF_CONFIG` describes."""
    told = distributed(tf.distribute.MultiWorkerMirroredStrategy(), 20)
    return {**told, "rank": json.loads(os.environ["TF_CONFIG"])["task"]["index"]}


def workers():
    """Two processes that train together."""
    sockets = [socket.create_server(("localhost", 0)) for _ in range(2)]
    cluster = {"worker": [f"localhost:{one.getsockname()[1]}" for one in sockets]}
    for one in sockets:
        one.close()
    started = []
    for rank in range(2):
        os.makedirs(f"worker-{rank}", exist_ok=True)
        config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}})
        command = [sys.executable, os.path.abspath(__file__), "worker"]
        surroundings = {**os.environ, "TF_CONFIG": config}
        started.append(subprocess.Popen(command, cwd=f"worker-{rank}", env=surroundings))
    assert [one.wait() for one in started] == [0, 0]
    told = []
    for rank in range(2):
        with open(f"worker-{rank}/truth.json") as file:
            told.append(json.load(file))
    return {"steps": 40, "model": told[0]["model"], "models": [one["model"] for one in told]}


def profiled():
    """The script profiles itself: in steps 10 to 19, and again from step 35 on."""
    x, y = data(50)
    net, sizes = model(), []
    train_step = step_of(net, keras.optimizers.SGD(0.01))
    for number, (inputs, labels) in enumerate(tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)):
        if number in (10, 35):
            tf.profiler.experimental.start("own")
        train_step(inputs, labels)
        if number in (19, 44):
            tf.profiler.experimental.stop()
            (path,) = glob.glob("own/**/*.xplane.pb", recursive=True)
            sizes.append(os.path.getsize(path))
            shutil.rmtree("own")
    return {"steps": 50, "traces": sizes, "model": weights(net)}


def data_bound():
    """Images that a `map` decodes one after another, beside a small model."""
    x, y = data(60)

    def decode(x, y):
        work = tf.random.stateless_uniform((160, 160), seed=(1, 2)) + tf.reduce_sum(x)
        for _ in range(6):
            work = tf.linalg.matmul(work, work) / 160.0
        return x + 0.0 * tf.random.uniform(()) + 0.0 * tf.reduce_mean(work), y

    net = model()
    train_step = step_of(net, keras.optimizers.SGD(0.01))
    batches = tf.data.Dataset.from_tensor_slices((x, y)).map(decode, num_parallel_calls=1).batch(BATCH)
    for _ in range(3):
        for inputs, labels in batches.take(40).prefetch(1):
            train_step(inputs, labels)
    return {"steps": 120, "model": weights(net)}


def compute_bound():
    x, y = data(60)
    net = model(2048, layers=3)
    train_step = step_of(net, keras.optimizers.SGD(0.01))
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH).prefetch(tf.data.AUTOTUNE)
    for _ in range(2):
        for inputs, labels in batches:
            train_step(inputs, labels)
    return {"steps": 120, "model": weights(net)}


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    with open("truth.json", "w") as file:
        json.dump(globals()[sys.argv[1]](), file)
