"""Uses compiled functions of JAX in all ways that scripts do; writes what it sees to truth.json."""

import copy
import functools
import inspect
import json
import pickle

import jax
import jax.numpy as jnp
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


if __name__ == "__main__":
    with open("truth.json", "w") as file:
        json.dump({"said": said()}, file)
