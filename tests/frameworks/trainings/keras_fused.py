"""Trains with Keras on TensorFlow or JAX as the argument says; writes what really happened to truth.json."""

import contextlib
import hashlib
import importlib.util
import json
import os
import sys
import time

os.environ["KERAS_BACKEND"] = "tensorflow" if importlib.util.find_spec("tensorflow") else "jax"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"

import keras
import numpy as np

BACKEND = keras.backend.backend()
if BACKEND == "tensorflow":
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)

BATCH, FEATURES, CLASSES = 32, 48, 8
took = dict.fromkeys(("data_loading", "compute", "eval", "checkpoint"), 0.0)
arrived = []
"""Times from the begin of a call to the arrival of its batch."""
marks = []
"""The time and the clocks after the last batch of each epoch."""


class Clock:
    """Adds the time of a block to a part."""

    def __init__(self, part):
        self.part = part

    def __enter__(self):
        self.begin = time.perf_counter()

    def __exit__(self, *error):
        took[self.part] += time.perf_counter() - self.begin


class Clocked(keras.Sequential):
    """A model that knows when its batch has arrived, where the backend can tell, and clocks evaluations."""

    def __init__(self, layers):
        super().__init__(layers)
        if BACKEND == "tensorflow":
            self.arrived = tf.Variable(0.0, dtype="float64", trainable=False)

    if BACKEND == "tensorflow":

        def train_step(self, data):
            with tf.control_dependencies(tf.nest.flatten(data)):
                stamp = tf.timestamp()
            with tf.control_dependencies([self.arrived.assign(stamp)]):
                data = tf.nest.map_structure(tf.identity, data)
            return super().train_step(data)

    def evaluate(self, *args, **kwargs):
        marks.append((time.perf_counter(), dict(took)))
        with Clock("eval"):
            return super().evaluate(*args, **kwargs)


class Clocks(keras.callbacks.Callback):
    """Clocks the train function, which contains the wait for its batch."""

    def __init__(self):
        super().__init__()
        self.each, self.ended, self.before = [], 0.0, 0.0

    def on_train_batch_begin(self, batch, logs=None):
        self.began, self.at = time.perf_counter(), time.time()

    def on_train_batch_end(self, batch, logs=None):
        took["compute"] += time.perf_counter() - self.began
        if BACKEND == "tensorflow":
            arrived.append(float(self.model.arrived.numpy()) - self.at)
            # Before it requests a batch, a call is dispatched: that is what the fastest of all took.
            wait = max(arrived[-1] - min(arrived), 0.0)
            took["data_loading"] += wait
            took["compute"] -= wait
        now, loaded = time.perf_counter(), took["data_loading"]
        self.each.append({"data_loading": loaded - self.before, "loop": now - self.ended})
        self.ended, self.before = now, loaded


class Batches(keras.utils.PyDataset):
    """Batches that take a while to make."""

    def __init__(self, x, y, seconds, **options):
        super().__init__(**options)
        self.x, self.y, self.seconds = x, y, seconds

    def __len__(self):
        return len(self.x) // BATCH

    def __getitem__(self, index):
        began = time.perf_counter()
        time.sleep(self.seconds)
        at = slice(index * BATCH, (index + 1) * BATCH)
        if BACKEND == "jax":  # which takes batches on the training thread
            took["data_loading"] += time.perf_counter() - began
            took["compute"] -= time.perf_counter() - began
        return self.x[at], self.y[at]


class Saving(keras.callbacks.ModelCheckpoint):
    def on_epoch_end(self, epoch, logs=None):
        with Clock("checkpoint"):
            super().on_epoch_end(epoch, logs)


class Dawdling(keras.callbacks.Callback):
    """A callback that wants the numbers of each batch, and dawdles after an epoch."""

    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])

    def on_epoch_end(self, epoch, logs=None):
        time.sleep(0.3)


class Adversarial(keras.Model):
    """Two models with optimizers of their own, both updated in each step. For TensorFlow."""

    def __init__(self):
        super().__init__()
        self.first, self.second = keras.layers.Dense(8), keras.layers.Dense(8)
        self.one, self.two = keras.optimizers.SGD(0.01), keras.optimizers.SGD(0.02)

    def train_step(self, data):
        x, _ = data
        with tf.GradientTape(persistent=True) as tape:
            fake = self.first(x)
            loss = tf.reduce_mean(self.second(fake) ** 2)
            other = tf.reduce_mean(fake**2)
        for layer, optimizer, of in ((self.first, self.one, other), (self.second, self.two, loss)):
            weights = layer.trainable_weights
            optimizer.apply_gradients(zip(tape.gradient(of, weights), weights, strict=True))
        return {"loss": loss, "other": other}


def model(width=64, kind=keras.Sequential, layers=1, **options):
    dense = [keras.layers.Dense(width, activation="relu") for _ in range(layers)]
    made = kind([*dense, keras.layers.Dropout(0.1), keras.layers.Dense(CLASSES)])
    made.compile(
        optimizer=keras.optimizers.Adam(0.003),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        **options,
    )
    return made


def data(batches):
    random = np.random.default_rng(0)
    x = random.normal(size=(batches * BATCH, FEATURES)).astype("float32")
    return x, x[:, :CLASSES].argmax(1).astype("int64")


def weights(*models):
    digest = hashlib.sha256()
    for one in models:
        for value in one.get_weights():
            digest.update(value.tobytes())
    return digest.hexdigest()


def arrays():
    """Arrays, a validation split, a checkpoint after each epoch; then an evaluation and predictions."""
    x, y = data(50)
    net = model()
    net.predict(x[:BATCH], verbose=0)
    saving = keras.callbacks.ModelCheckpoint("best.keras")
    past = net.fit(x, y, batch_size=BATCH, epochs=3, validation_split=0.2, callbacks=[saving], verbose=2)
    evaluated = net.evaluate(x, y, verbose=0)
    predicted = float(net.predict(x, verbose=0).sum())
    return {"steps": 120, "epochs": 3, "history": past.history, "evaluated": evaluated,
            "predicted": predicted, "model": weights(net)}  # fmt: skip


def clocked():
    """Slow batches, validation and checkpoints, with clocks."""
    x, y = data(40)
    net = model(2048, Clocked, layers=2)
    net.build((BATCH, FEATURES))
    clocks = Clocks()
    # Batches that are there show how long it takes to dispatch a call.
    net.fit(x[: 20 * BATCH], y[: 20 * BATCH], batch_size=BATCH, callbacks=[clocks], verbose=0)
    callbacks = [clocks, Saving("best.weights.h5", save_weights_only=True)]
    slow = Batches(x, y, 0.08 if BACKEND == "tensorflow" else 0.04)
    net.fit(slow, epochs=4, validation_data=(x, y), callbacks=callbacks, verbose=0)
    (begin, before), (end, after) = marks[0], marks[-1]
    spent = {part: after[part] - before[part] for part in took}
    return {"steps": 180, "epochs": 5, "took": spent, "whole": end - begin, "model": weights(net)}


def data_bound():
    x, y = data(80)
    net, clocks = model(kind=Clocked), Clocks()
    # Batches that are there show how long it takes to dispatch a call.
    net.fit(x[: 20 * BATCH], y[: 20 * BATCH], batch_size=BATCH, callbacks=[clocks], verbose=0)
    net.fit(Batches(x, y, 0.1), epochs=2, callbacks=[clocks], verbose=0)
    return {"steps": 180, "epochs": 2, "first": 100, "each": clocks.each[100:], "model": weights(net)}


def compute_bound():
    x, y = data(80)
    net = model(2048, layers=3)
    net.fit(Batches(x, y, 0.0), epochs=2, verbose=0)
    return {"steps": 160, "epochs": 2, "model": weights(net)}


def at_once():
    """Seven batches in one call, the last call of an epoch with five; stopped early after two epochs."""
    x, y = data(40)
    net, losses = model(steps_per_execution=7), []
    stop = keras.callbacks.EarlyStopping(monitor="loss", patience=0, mode="max")
    past = net.fit(x, y, batch_size=BATCH, epochs=9, callbacks=[stop], verbose=0)
    losses += past.history["loss"]
    return {"steps": 40 * len(losses), "epochs": len(losses), "losses": losses, "model": weights(net)}


def unknown():
    """A generator, whose length shows at the end of the first epoch, with a callback that needs numbers."""
    x, y = data(40)
    net, slow = model(), Dawdling()

    def batches():
        for _ in range(2):
            for at in range(0, len(x), BATCH):
                yield x[at : at + BATCH], y[at : at + BATCH]

    net.fit(batches(), epochs=1, callbacks=[slow], verbose=0)
    return {"steps": 80, "epochs": 1, "losses": slow.losses, "model": weights(net)}


def restored():
    """A training that fails in its third epoch, and one that goes on with what it left."""
    x, y = data(20)

    class Fails(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.epoch = epoch

        def on_train_batch_begin(self, batch, logs=None):
            if (self.epoch, batch) == (2, 7):
                raise RuntimeError("as planned")

    keras.utils.set_random_seed(0)
    net = model()
    net.build((None, FEATURES))
    backup = keras.callbacks.BackupAndRestore("backup")
    with contextlib.suppress(RuntimeError):
        net.fit(x, y, batch_size=BATCH, epochs=4, callbacks=[backup, Fails()], verbose=0, shuffle=False)
    net.fit(x, y, batch_size=BATCH, epochs=4, callbacks=[backup], verbose=0, shuffle=False)
    return {"steps": 47 + 40, "model": weights(net)}


def workers():
    """Batches that two workers of a PyDataset make; Keras then tunes nothing on TensorFlow."""
    x, y = data(40)
    net = model()
    net.fit(Batches(x, y, 0.02, workers=2), epochs=2, verbose=0, shuffle=False)
    return {"steps": 80, "epochs": 2, "model": ""}


def on_batch():
    """Two models that train with `train_on_batch` in turn, after a prediction and around an evaluation."""
    x, y = data(30)
    first, second = model(), model(32)
    first.predict(x[:BATCH], verbose=0)
    for at in range(0, len(x), BATCH):
        first.train_on_batch(x[at : at + BATCH], y[at : at + BATCH])
        second.train_on_batch(x[at : at + BATCH], y[at : at + BATCH])
        if at == 10 * BATCH:
            first.evaluate(x, y, verbose=0)
            means = sorted(
                float(one.mean(dtype="float64")) for net in (first, second) for one in net.get_weights()[::2]
            )
    return {"steps": 30, "means": means, "model": weights(first, second)}


def adversarial():
    x, y = data(40)
    net = Adversarial()
    net.compile()
    net.fit(x, y, batch_size=BATCH, epochs=2, verbose=0)
    return {"steps": 80, "epochs": 2, "model": weights(net)}


def eagerly():
    x, y = data(30)
    net = model(run_eagerly=True)
    net.fit(Batches(x, y, 0.01), epochs=2, verbose=0)
    return {"steps": 60, "epochs": 2, "model": weights(net)}


def several():
    """Three calls of `fit`, one of them inside a callback of another."""
    x, y = data(20)
    inner, outer = model(32), model()

    class Nested(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            inner.fit(x, y, batch_size=BATCH, epochs=1, verbose=0)

    outer.fit(x, y, batch_size=BATCH, epochs=1, verbose=0)
    outer.fit(x, y, batch_size=BATCH, epochs=2, callbacks=[Nested()], verbose=0)
    size = outer.count_params()
    return {"steps": 60, "model": weights(inner, outer), "outer": f"Sequential of {size} parameters"}


def wrapped():
    """`fit` as a logger of another library wraps it, before there is a model."""
    fit = keras.Model.fit

    def logged(self, *args, **kwargs):
        return fit(self, *args, **kwargs)

    keras.Model.fit = logged
    x, y = data(20)
    net = model()
    net.fit(x, y, batch_size=BATCH, epochs=2, verbose=0)
    return {"steps": 40, "epochs": 2, "model": weights(net)}


def own_loop():
    """A loop of the script's own that validates after each epoch. For JAX."""
    import jax

    x, y = data(40)
    net = model(512, layers=2)
    net.build((None, FEATURES))
    net.optimizer.build(net.trainable_variables)
    compute = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def loss_of(weights, rest, x, y):
        predicted, rest = net.stateless_call(weights, rest, x, training=True)
        return compute(y, predicted), rest

    @jax.jit
    def train_step(weights, rest, state, x, y):
        (loss, rest), gradients = jax.value_and_grad(loss_of, has_aux=True)(weights, rest, x, y)
        weights, state = net.optimizer.stateless_apply(state, gradients, weights)
        return weights, rest, state, loss

    @jax.jit
    def score(weights, rest, x, y):
        return compute(y, net.stateless_call(weights, rest, x, training=False)[0])

    weights_, rest = net.trainable_variables, net.non_trainable_variables
    values = [one.value for one in weights_], [one.value for one in rest]
    state = [one.value for one in net.optimizer.variables]
    for _ in range(3):
        for at in range(0, len(x), BATCH):
            *values, state, loss = train_step(*values, state, x[at : at + BATCH], y[at : at + BATCH])
            float(loss)
        marks.append((time.perf_counter(), dict(took)))
        with Clock("eval"):
            for at in range(0, len(x), BATCH):
                float(score(*values, x[at : at + BATCH], y[at : at + BATCH]))
    (begin, before), (end, after) = marks[0], marks[-1]
    for variable, value in zip(weights_, values[0], strict=True):
        variable.assign(value)
    return {"steps": 120, "first": 40, "took": {"eval": after["eval"] - before["eval"]},
            "loop": end - begin, "model": weights(net)}  # fmt: skip


def counted_assignments():
    """Count assignments to variables: on JAX, asking a callback for its model copies the whole state."""
    count = [0]
    assign = keras.Variable.assign

    def counted(self, value):
        count[0] += 1
        return assign(self, value)

    keras.Variable.assign = counted
    return count


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    assignments = counted_assignments()
    truth = globals()[sys.argv[1]]()
    if BACKEND == "jax":
        truth["assignments"] = assignments[0]
    with open("truth.json", "w") as file:
        json.dump(truth, file)
