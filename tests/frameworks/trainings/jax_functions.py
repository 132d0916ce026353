"""Uses compiled functions of JAX in all ways that scripts do; writes what it sees to truth.json."""

import copy
import functools
import inspect
import json
import pickle
import sys

import jax
import jax.numpy as jnp
import optax
from jax_loop import data, eval_step, loss_of, model, train_step


def said():
    """Return what scripts can see of compiled functions."""

    def outcome(call):
        try:
            return type(call()).__name__
        except Exception as error:
            return f"{type(error).__name__}: {error}".split(" at 0x")[0]

    @functools.partial(jax.jit, static_argnames="power", donate_argnums=0)
    def step(x, y, *, power=2):
        """Return a step."""
        return x - 0.1 * jax.grad(lambda x: ((x * y) ** power).sum())(x)

    class Trainer:
        @functools.partial(jax.jit, static_argnums=0)
        def step(self, x):
            return x - 0.1 * jax.grad(lambda x: (x**2).sum())(x)

    ones = jnp.ones(4)
    found = [
        str(inspect.signature(step)), step.__name__, step.__doc__, step.__module__, repr(step)[:20],
        isinstance(step, jax.stages.Wrapped), isinstance(step, type(jax.jit(len))), callable(step),
        inspect.isfunction(step.__wrapped__), str(inspect.signature(jax.jit))[:40], jax.jit.__name__,
        outcome(lambda: pickle.dumps(train_step)), outcome(lambda: copy.copy(train_step)),
        outcome(lambda: pickle.loads(pickle.dumps(loss_of))(model(), *data(1)).shape),
        hash(step) == hash(step), step == step, len({step: 1}),
        str(jax.make_jaxpr(eval_step)(model(), *data(1)).jaxpr.eqns[0].primitive),
        jax.eval_shape(step, ones, 1.0).shape, step.eval_shape(ones, 1.0).shape,
        float(Trainer().step(jnp.ones(4))[0]), float(Trainer.step(Trainer(), jnp.ones(4))[0]),
        jax.vmap(step)(jnp.ones((2, 4)), jnp.ones(2)).shape,
        float(jax.grad(lambda x: step(x, 1.0).sum())(jnp.ones(4))[0]),
        float(jax.jit(step)(jnp.ones(4), 1.0)[0]),
        float(step(jnp.ones(4), 1.0, power=3)[0]), step._cache_size(),
        float(step.lower(jnp.ones(4), 1.0).compile()(jnp.ones(4), 1.0)[0]),
        float(step.trace(jnp.ones(4), 1.0).lower().compile()(jnp.ones(4), 1.0)[0]),
        float(jax.jit(static_argnums=1)(lambda x, n: x * n)(jnp.ones(4), 3)[0]),
        float(jax.lax.fori_loop(0, 3, lambda i, x: x + i, 0.0)),
    ]  # fmt: skip
    try:
        step("text", 1.0)
    except TypeError as error:
        found.append(str(error)[:60])
    return [str(one) for one in found]


def restored():
    """Stop the recording, and return whether JAX is what it was, and whether old functions work."""
    session = getattr(sys.modules.get("holter.recorder.session"), "current", None)
    if session is not None:
        session.close()
    array = sys.modules["jax._src.array"].ArrayImpl
    return [
        jax.jit is sys.modules["jax._src.api"].jit,
        jax.value_and_grad is sys.modules["jax._src.api"].value_and_grad,
        optax.apply_updates.__module__,
        optax.apply_updates.__code__.co_filename.endswith("update.py"),
        jax.lax.scan.__code__.co_filename.endswith("loops.py"),
        jax.stages.Compiled.__call__.__code__.co_filename.endswith("stages.py"),
        type(array.block_until_ready).__name__,
        vars(array)["_value"].fget.__code__.co_filename.endswith("profiler.py"),
        float(eval_step(model(), *data(1))),
    ]


if __name__ == "__main__":
    with open("truth.json", "w") as file:
        json.dump({"said": said(), "restored": restored()}, file)
