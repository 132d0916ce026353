"""Trains with Keras on torch as the argument says; writes what really happened to truth.json."""

import hashlib
import json
import os
import sys
import time

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
import torch

BATCH, FEATURES, CLASSES = 32, 48, 8
took = dict.fromkeys(("data_loading", "forward", "loss", "backward", "optimizer", "eval", "checkpoint"), 0.0)
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
    """A model whose own training step has clocks, and whose evaluation has one."""

    def train_step(self, data):
        x, y = data
        with Clock("forward"):
            predicted = self(x, training=True)
        with Clock("loss"):
            self.zero_grad()
            loss = self.compute_loss(x=x, y=y, y_pred=predicted)
        with Clock("backward"):
            loss.backward()
        variables = self.trainable_weights
        gradients = [variable.value.grad for variable in variables]
        with Clock("optimizer"), torch.no_grad():
            self.optimizer.apply(gradients, variables)
        self._loss_tracker.update_state(loss, sample_weight=len(x))
        return self.compute_metrics(x, y, predicted, None)

    def evaluate(self, *args, **kwargs):
        marks.append((time.perf_counter(), dict(took)))
        with Clock("eval"):
            return super().evaluate(*args, **kwargs)


class Batches(keras.utils.PyDataset):
    """Batches that take a while to make."""

    def __init__(self, x, y, seconds):
        super().__init__()
        self.x, self.y, self.seconds = x, y, seconds

    def __len__(self):
        return len(self.x) // BATCH

    def __getitem__(self, index):
        time.sleep(self.seconds)
        at = slice(index * BATCH, (index + 1) * BATCH)
        return self.x[at], self.y[at]


class Loads(keras.callbacks.Callback):
    """Clocks what passes from one batch to the next: Keras takes a batch and makes tensors of it."""

    def __init__(self):
        super().__init__()
        self.epochs, self.each = [], []
        self.before = dict(took)

    def on_epoch_begin(self, epoch, logs=None):
        self.since = time.perf_counter()

    def on_train_batch_begin(self, batch, logs=None):
        now = time.perf_counter()
        took["data_loading"] += now - self.since
        self.since = now

    def on_train_batch_end(self, batch, logs=None):
        now = time.perf_counter()
        spent = {part: seconds - self.before[part] for part, seconds in took.items()}
        self.each.append({**spent, "loop": now - self.since + spent["data_loading"]})
        self.since, self.before = now, dict(took)

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append((self.since, took["data_loading"]))


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


class Slow(keras.callbacks.Callback):
    """A callback that waits after each batch."""

    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.05)


def model(width=64, kind=keras.Sequential, layers=1):
    dense = [keras.layers.Dense(width, activation="relu") for _ in range(layers)]
    made = kind([*dense, keras.layers.Dropout(0.1), keras.layers.Dense(CLASSES)])
    made.compile(
        optimizer=keras.optimizers.Adam(0.003),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
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
            "predicted": predicted, "model": weights(net),
            "watched": hasattr(torch.Tensor.to, "__wrapped__")}  # fmt: skip


def clocked():
    """A custom training step with clocks, slow batches, validation and checkpoints."""
    x, y = data(40)
    net = model(256, Clocked, layers=2)
    net.build((BATCH, FEATURES))
    loads = Loads()
    callbacks = [loads, Saving("best.weights.h5", save_weights_only=True)]
    net.fit(Batches(x, y, 0.003), epochs=4, validation_data=(x, y), callbacks=callbacks, verbose=0)
    (begin, before), (end, after) = marks[0], marks[-1]
    spent = {part: after[part] - before[part] for part in took}
    return {"steps": 160, "epochs": 4, "first": 40, "took": spent, "each": loads.each[40:],
            "loop": end - begin, "model": weights(net)}  # fmt: skip


def data_bound():
    x, y = data(80)
    net, loads = model(), Loads()
    net.fit(Batches(x, y, 0.1), epochs=2, callbacks=[loads], verbose=0)
    (begin, before), (end, after) = loads.epochs
    return {"steps": 160, "epochs": 2, "first": 80, "took": {"data_loading": after - before},
            "loop": end - begin, "model": weights(net)}  # fmt: skip


def compute_bound():
    x, y = data(80)
    net = model(1024, layers=3)
    net.fit(Batches(x, y, 0.0), epochs=2, verbose=0)
    return {"steps": 160, "epochs": 2, "model": weights(net)}


def loader():
    """A torch DataLoader, and a callback for which Keras converts numbers at once."""
    x, y = data(40)
    net, slow = model(), Dawdling()
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    batches = torch.utils.data.DataLoader(dataset, batch_size=BATCH, num_workers=1)
    net.fit(batches, epochs=2, callbacks=[slow], verbose=0)
    return {"steps": 80, "epochs": 2, "losses": slow.losses, "model": weights(net)}


def slow_callback():
    x, y = data(40)
    net = model()
    net.fit(x, y, batch_size=BATCH, epochs=1, callbacks=[Slow()], verbose=0)
    return {"steps": 40, "epochs": 1, "model": weights(net)}


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
    return {"steps": 30, "model": weights(first, second)}


def own_loop():
    """A loop of the script's own with an optimizer of Keras."""
    x, y = data(40)
    net = model()
    compute = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    for at in range(0, len(x), BATCH):
        loss = compute(y[at : at + BATCH], net(x[at : at + BATCH], training=True))
        net.zero_grad()
        loss.backward()
        variables = net.trainable_weights
        with torch.no_grad():
            net.optimizer.apply([one.value.grad for one in variables], variables)
    return {"steps": 40, "model": weights(net)}


def validating():
    """A loop of the script's own that validates after each epoch, without `no_grad`."""
    x, y = data(40)
    net = model(256, layers=2)
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    batches = torch.utils.data.DataLoader(dataset, batch_size=BATCH)
    marks = []
    for _ in range(3):
        for inputs, labels in batches:
            loss = net.compute_loss(x=inputs, y=labels, y_pred=net(inputs, training=True))
            net.zero_grad()
            loss.backward()
            variables = net.trainable_weights
            with torch.no_grad():
                net.optimizer.apply([one.value.grad for one in variables], variables)
        marks.append((time.perf_counter(), dict(took)))
        with Clock("eval"):
            for inputs, _ in batches:
                net(inputs, training=False)
    (begin, before), (end, after) = marks[0], marks[-1]
    return {"steps": 120, "first": 40, "took": {"eval": after["eval"] - before["eval"]},
            "loop": end - begin, "model": weights(net)}  # fmt: skip


def several():
    """Three calls of `fit`, one of them inside a callback of another."""
    x, y = data(20)
    inner, outer = model(32), model()

    class Nested(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            inner.fit(x, y, batch_size=BATCH, epochs=1, verbose=0)

    outer.fit(x, y, batch_size=BATCH, epochs=1, verbose=0)
    outer.fit(x, y, batch_size=BATCH, epochs=2, callbacks=[Nested()], verbose=0)
    return {"steps": 60, "model": weights(inner, outer)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    keras.utils.set_random_seed(0)
    with open("truth.json", "w") as file:
        json.dump(globals()[sys.argv[1]](), file)
