"""Trains with JAX as the argument says; writes what really happened to truth.json."""

import functools
import hashlib
import json
import os
import shutil
import sys
import time

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
if "devices" in sys.argv[-1]:
    os.environ["JAX_NUM_CPU_DEVICES"] = "2"

import jax
import jax.numpy as jnp
import numpy as np
import optax

FEATURES, CLASSES, BATCH = 64, 10, 64
took = dict.fromkeys(("data", "call", "wait", "eval", "checkpoint"), 0.0)


class Clock:
    """Adds the time of a block to a part."""

    def __init__(self, part):
        self.part = part

    def __enter__(self):
        self.begin = time.perf_counter()

    def __exit__(self, *error):
        took[self.part] += time.perf_counter() - self.begin


def data(batches, batch=BATCH):
    random = np.random.default_rng(0)
    x = random.normal(size=(batches * batch, FEATURES)).astype("float32")
    return x, x[:, :CLASSES].argmax(1).astype("int32")


def model(width=256, layers=1):
    keys = jax.random.split(jax.random.PRNGKey(0), layers + 1)
    sizes = [FEATURES, *[width] * layers, CLASSES]
    return [
        {"w": jax.random.normal(key, (one, other)) / one**0.5, "b": jnp.zeros(other)}
        for key, one, other in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


def forward(params, x):
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def loss_of(params, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(forward(params, x), y).mean()


optimizer = optax.adam(1e-3)


@jax.jit
def train_step(params, state, x, y):
    loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, loss


@jax.jit
def eval_step(params, x, y):
    return (forward(params, x).argmax(1) == y).mean()


def weights(tree):
    digest = hashlib.sha256()
    for leaf in jax.tree_util.tree_leaves(tree):
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()


def stream(x, y, seconds, batch=BATCH):
    """Batches that take a while to make."""
    for at in range(0, len(x), batch):
        with Clock("data"):
            time.sleep(seconds)
        yield x[at : at + batch], y[at : at + batch]


def fit(params, batches, *, wait=1, test=None, every=50):
    """A loop with clocks; it waits for the loss in each `wait`-th step."""
    state, losses, count = optimizer.init(params), [], 0
    begin = None
    for x, y in batches:
        with Clock("call"):
            params, state, loss = train_step(params, state, x, y)
        losses.append(loss)
        if count % wait == 0:
            with Clock("wait"):
                float(loss)
        count += 1
        if test is not None and count % every == 0:
            with Clock("eval"):
                float(eval_step(params, *test))
        if count == 5:
            begin = time.perf_counter(), dict(took)
    whole = time.perf_counter() - begin[0]
    spent = {part: took[part] - begin[1][part] for part in took}
    return params, {"steps": count, "losses": [float(one) for one in losses], "whole": whole, "took": spent}


def plain():
    """Two epochs of slow and steady batches, with an evaluation every 50 steps."""
    x, y = data(100)
    params = model()
    batches = (one for _ in range(2) for one in stream(x, y, 0.004))
    params, told = fit(params, batches, test=(x[:2048], y[:2048]))
    return {**told, "model": weights(params)}


def data_bound():
    x, y = data(120)
    params, told = fit(model(), stream(x, y, 0.05))
    return {**told, "model": weights(params)}


def compute_bound():
    x, y = data(40, 512)
    params, told = fit(model(1024, 2), stream(x, y, 0.0, 512), wait=10)
    return {**told, "model": weights(params)}


def device():
    """The same twice: without waiting, and with a wait in each step, which measures the device."""
    x, y = data(40, 512)
    params, state = model(1024, 2), None
    params, told = fit(params, (one for _ in range(3) for one in stream(x, y, 0.0, 512)), wait=1000)
    jax.block_until_ready(params)
    state, times = optimizer.init(params), []
    for x1, y1 in stream(x, y, 0.0, 512):
        begin = time.perf_counter()
        params, state, loss = train_step(params, state, x1, y1)
        jax.block_until_ready(loss)
        times.append(time.perf_counter() - begin)
    return {**told, "steps": told["steps"] + 40, "device": sorted(times)[20], "model": weights(params)}


def state_only():
    """A step that returns its state only: twice without a wait in each step, the second time donated."""

    def update(params, x, y):
        return jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, jax.grad(loss_of)(params, x, y))

    x, y = data(40, 512)
    params, times = model(1024, 2), []
    for donated in ((), (0,)):
        step = jax.jit(update, donate_argnums=donated)
        for _ in range(2):
            for x1, y1 in stream(x, y, 0.0, 512):
                params = step(params, x1, y1)
        jax.block_until_ready(params)
        for x1, y1 in stream(x, y, 0.0, 512):
            begin = time.perf_counter()
            params = jax.block_until_ready(step(params, x1, y1))
            times.append(time.perf_counter() - begin)
    return {"steps": 240, "device": sorted(times)[40], "model": weights(params)}


def gradient_only():
    """A compiled gradient, and an update by hand outside of it."""
    x, y = data(40)
    params = model()
    taken = jax.jit(jax.value_and_grad(loss_of))
    for at in range(0, len(x), BATCH):
        _, gradients = taken(params, x[at : at + BATCH], y[at : at + BATCH])
        params = jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, gradients)
    return {"steps": 40, "model": weights(params)}


def divided():
    """One compiled function takes the gradient, another one updates; the first one also evaluates."""
    x, y = data(40)
    params = model()
    state = optimizer.init(params)

    @jax.jit
    def apply_model(params, x, y):
        return jax.value_and_grad(loss_of)(params, x, y)

    @jax.jit
    def update_model(params, state, gradients):
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    for at in range(0, len(x), BATCH):
        _, gradients = apply_model(params, x[at : at + BATCH], y[at : at + BATCH])
        params, state = update_model(params, state, gradients)
        if at % (10 * BATCH) == 0:
            apply_model(params, x[:512], y[:512])
    return {"steps": 40, "model": weights(params)}


def eager():
    """Nothing is compiled by the script."""
    x, y = data(20)
    params = model(32)
    state = optimizer.init(params)
    for at in range(0, len(x), BATCH):
        gradients = jax.grad(loss_of)(params, x[at : at + BATCH], y[at : at + BATCH])
        updates, state = optimizer.update(gradients, state, params)
        params = optax.apply_updates(params, updates)
    return {"steps": 20, "model": weights(params)}


def scanned():
    """Ten steps in each call, which returns their losses."""
    x, y = data(100)
    x, y = x.reshape(10, 10, BATCH, FEATURES), y.reshape(10, 10, BATCH)
    params = model()

    def one(carry, batch):
        params, state = carry
        loss, gradients = jax.value_and_grad(loss_of)(params, *batch)
        updates, state = optimizer.update(gradients, state, params)
        return (optax.apply_updates(params, updates), state), loss

    @jax.jit
    def train_epoch(carry, x, y):
        return jax.lax.scan(one, carry, (x, y))

    carry, losses = (params, optimizer.init(params)), []
    for at in range(10):
        carry, some = train_epoch(carry, x[at], y[at])
        losses += [float(loss) for loss in some]
        time.sleep(0.05)
    return {"steps": 100, "losses": losses, "model": weights(carry[0])}


def ahead():
    """A step that is compiled ahead of time."""
    x, y = data(40)
    params = model()
    state = optimizer.init(params)
    step = train_step.lower(params, state, x[:BATCH], y[:BATCH]).compile()
    losses = []
    for at in range(0, len(x), BATCH):
        params, state, loss = step(params, state, x[at : at + BATCH], y[at : at + BATCH])
        losses.append(float(loss))
    return {"steps": 40, "losses": losses, "model": weights(params)}


def recompiled():
    """Batches of six lengths, another static value, and a function that is made anew."""
    x, y = data(60)
    params = model()
    state = optimizer.init(params)
    for at in range(60):
        size = BATCH - at // 10
        params, state, _ = train_step(params, state, x[:size], y[:size])

    @functools.partial(jax.jit, static_argnames="scale")
    def scaled(x, scale):
        return x * scale

    for scale in (1.0, 2.0, 3.0):
        scaled(x, scale=scale)
    for _ in range(3):
        jax.jit(lambda x: x + 1)(x)
    return {"steps": 60, "model": weights(params)}


def wild():
    """The loss is not finite from step 25 on."""
    x, y = data(40)
    x[25 * BATCH :] = np.inf
    params, told = fit(model(), stream(x, y, 0.002))
    return {"steps": 40, "losses": [str(one) for one in told["losses"]], "model": weights(params)}


def clocked_calls(step):
    """Train on 60 batches; return the losses and the seconds of each call."""
    x, y = data(60)
    losses, calls = [], []
    for at in range(0, len(x), BATCH):
        before = took["call"]
        with Clock("call"):
            loss = step(x[at : at + BATCH], y[at : at + BATCH])
        calls.append(took["call"] - before)
        losses.append(float(loss))
    return losses, calls


def nnx():
    """A model of `flax.nnx`."""
    from flax import nnx as modules

    class Net(modules.Module):
        def __init__(self, rngs):
            self.a = modules.Linear(FEATURES, 128, rngs=rngs)
            self.b = modules.Linear(128, CLASSES, rngs=rngs)

        def __call__(self, x):
            return self.b(modules.relu(self.a(x)))

    net = Net(modules.Rngs(0))
    adam = modules.Optimizer(net, optax.adam(1e-3), wrt=modules.Param)

    @modules.jit
    def step(net, adam, x, y):
        def loss_fn(net):
            return optax.softmax_cross_entropy_with_integer_labels(net(x), y).mean()

        loss, gradients = modules.value_and_grad(loss_fn)(net)
        adam.update(net, gradients)
        return loss

    losses, calls = clocked_calls(lambda x, y: step(net, adam, x, y))
    model = weights(modules.state(net, modules.Param))
    return {"steps": 60, "losses": losses, "calls": calls, "model": model}


def filtered():
    """A model of equinox; `filter_jit` takes it apart in each call."""
    import equinox

    net = equinox.nn.MLP(FEATURES, CLASSES, 128, 2, key=jax.random.key(0))
    adam = optax.adam(1e-3)
    state = adam.init(equinox.filter(net, equinox.is_array))

    @equinox.filter_jit
    def step(net, state, x, y):
        def loss_fn(net):
            return optax.softmax_cross_entropy_with_integer_labels(jax.vmap(net)(x), y).mean()

        loss, gradients = equinox.filter_value_and_grad(loss_fn)(net)
        updates, state = adam.update(gradients, state, net)
        return equinox.apply_updates(net, updates), state, loss

    def one(x, y):
        nonlocal net, state
        net, state, loss = step(net, state, x, y)
        return loss

    losses, calls = clocked_calls(one)
    model = weights(equinox.filter(net, equinox.is_array))
    return {"steps": 60, "losses": losses, "calls": calls, "model": model}


def linen():
    """A model of `flax.linen` with a `TrainState`; orbax writes it in the background."""
    import orbax.checkpoint as ocp
    from flax import linen as modules
    from flax.training import train_state

    class Net(modules.Module):
        @modules.compact
        def __call__(self, x):
            return modules.Dense(CLASSES)(modules.relu(modules.Dense(128)(x)))

    x, y = data(60)
    net = Net()
    params = net.init(jax.random.key(0), x[:1])["params"]
    state = train_state.TrainState.create(apply_fn=net.apply, params=params, tx=optax.adam(1e-3))

    @jax.jit
    def step(state, x, y):
        def loss_fn(params):
            logits = state.apply_fn({"params": params}, x)
            loss = optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()
            return loss, (logits.argmax(1) == y).mean()

        (loss, accuracy), gradients = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
        return state.apply_gradients(grads=gradients), {"loss": loss, "accuracy": accuracy}

    shutil.rmtree("checkpoints", ignore_errors=True)  # orbax skips steps that are there
    manager = ocp.CheckpointManager(os.path.abspath("checkpoints"))
    losses, accuracies = [], []
    for at in range(60):
        state, metrics = step(state, x[at * BATCH : (at + 1) * BATCH], y[at * BATCH : (at + 1) * BATCH])
        losses.append(float(metrics["loss"]))
        accuracies.append(float(metrics["accuracy"]))
        if at % 20 == 19:
            with Clock("checkpoint"):
                manager.save(at, args=ocp.args.StandardSave(state.params))
    manager.wait_until_finished()
    told = {"losses": losses, "accuracies": accuracies, "took": took}
    return {"steps": 60, **told, "model": weights(state.params)}


if __name__ == "__main__":
    told = globals()[sys.argv[1]]()
    with open("truth.json", "w") as file:
        json.dump(told, file)
