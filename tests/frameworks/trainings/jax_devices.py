"""Trains with JAX on several devices or processes, or under its profiler; the loop is that of jax_loop.py."""

import functools
import glob
import json
import os
import shutil
import socket
import subprocess
import sys

# It sets the environment of JAX.
from jax_loop import BATCH, FEATURES, data, loss_of, model, optimizer, train_step, weights

# isort: split
import jax
import jax.numpy as jnp
import numpy as np
import optax


def pmap_devices():
    """`pmap` on two devices."""
    x, y = data(40)
    x, y = x.reshape(40, 2, BATCH // 2, FEATURES), y.reshape(40, 2, BATCH // 2)

    @functools.partial(jax.pmap, axis_name="devices")
    def step(params, state, x, y):
        loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
        gradients = jax.lax.pmean(gradients, "devices")
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, jax.lax.pmean(loss, "devices")

    copied = jax.tree_util.tree_map(lambda leaf: jnp.stack([leaf] * 2), model())
    params, state, losses = copied, jax.vmap(optimizer.init)(copied), []
    for at in range(40):
        params, state, loss = step(params, state, x[at], y[at])
        losses.append(float(loss[0]))
    return {"steps": 40, "losses": losses, "model": weights(params)}


def shard_map_devices():
    """`shard_map` on two devices within a compiled step."""
    x, y = data(40)
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("devices",))
    spec = jax.sharding.PartitionSpec

    def local(params, x, y):
        loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
        return jax.lax.pmean(loss, "devices"), jax.lax.pmean(gradients, "devices")

    whole = jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(spec(), spec("devices"), spec("devices")),
        out_specs=(spec(), spec()),
        check_vma=False,
    )

    @jax.jit
    def step(params, state, x, y):
        loss, gradients = whole(params, x, y)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, loss

    params = model()
    state, losses = optimizer.init(params), []
    for at in range(0, len(x), BATCH):
        params, state, loss = step(params, state, x[at : at + BATCH], y[at : at + BATCH])
        losses.append(float(loss))
    return {"steps": 40, "losses": losses, "model": weights(params)}


def host():
    """One of two processes that share each batch."""
    rank = int(os.environ["HOST_RANK"])
    jax.distributed.initialize(os.environ["HOST_COORDINATOR"], 2, rank)
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("hosts",))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    parted = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("hosts"))
    params = jax.jit(model, out_shardings=whole)()
    state = jax.jit(optimizer.init, out_shardings=whole)(params)
    x, y = data(20)
    losses, half = [], BATCH // 2
    for at in range(rank * half, len(x), BATCH):
        batch = (jax.make_array_from_process_local_data(parted, one[at : at + half]) for one in (x, y))
        params, state, loss = train_step(params, state, *batch)
        losses.append(float(loss))
    return {"steps": 20, "losses": losses, "model": weights(params)}


def hosts():
    """Two processes that train together."""
    with socket.create_server(("localhost", 0)) as server:
        coordinator = f"localhost:{server.getsockname()[1]}"
    started = []
    for rank in range(2):
        os.makedirs(f"host-{rank}", exist_ok=True)
        surroundings = {**os.environ, "HOST_RANK": str(rank), "HOST_COORDINATOR": coordinator}
        command = [sys.executable, os.path.abspath(__file__), "host"]
        started.append(subprocess.Popen(command, cwd=f"host-{rank}", env=surroundings))
    assert [one.wait() for one in started] == [0, 0]
    told = []
    for rank in range(2):
        with open(f"host-{rank}/truth.json") as file:
            told.append(json.load(file))
    return {"steps": 20, "losses": told[0]["losses"], "models": [one["model"] for one in told]}


def profiled():
    """The script profiles itself: in steps 10 to 19, and again from step 35 on."""
    x, y = data(50)
    params = model()
    state, sizes = optimizer.init(params), []

    def end():
        jax.block_until_ready(params)
        jax.profiler.stop_trace()
        (path,) = glob.glob("own/**/*.xplane.pb", recursive=True)
        sizes.append(os.path.getsize(path))
        shutil.rmtree("own")

    for at in range(50):
        if at in (10, 35):
            jax.profiler.start_trace("own")
        params, state, _ = train_step(
            params, state, x[at * BATCH : (at + 1) * BATCH], y[at * BATCH : (at + 1) * BATCH]
        )
        if at in (19, 44):
            end()
    return {"steps": 50, "traces": sizes, "model": weights(params)}


if __name__ == "__main__":
    told = globals()[sys.argv[1]]()
    with open("truth.json", "w") as file:
        json.dump(told, file)
