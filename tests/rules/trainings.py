"""Small real trainings with torch, and the rows that a recorder would write of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from tests.rules.tables import SECOND, START
from tests.rules.tensor_rows import summary
from torch import nn

from holter.schema.table import Table

EVERY = 10
INPUTS_EVERY = 50
"""Whole inputs are many rows."""
torch.set_num_threads(1)
Batch = tuple[torch.Tensor, torch.Tensor]


class Transformer(nn.Module):
    """One block of self-attention over tokens, with the class read off the first."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(20, 32), nn.Parameter(torch.randn(12, 32) * 0.02)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.up, self.relu1, self.down = nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)
        self.fc = nn.Linear(32, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places
        n = self.norm1(x)
        x = x + self.attention(n, n, n, need_weights=False)[0]
        x = x + self.down(self.relu1(self.up(self.norm2(x))))
        return self.fc(x[:, 0])


def images(seed: int, *, shift: float = 0.0, size: float = 1.0) -> Iterator[Batch]:
    """Yield images of four patterns in noise, without end; normalised by default."""
    make = torch.Generator().manual_seed(seed)
    patterns = torch.randn(4, 1, 8, 8, generator=make)
    while True:
        labels = torch.randint(0, 4, (64,), generator=make)
        noise = torch.randn(64, 1, 8, 8, generator=make)
        yield shift + size * (patterns[labels] + noise) / 2**0.5, labels


def sequences(seed: int) -> Iterator[Batch]:
    """Yield sequences of tokens whose class is that of their third token; one in eight tokens is padding."""
    make = torch.Generator().manual_seed(seed)
    while True:
        tokens = torch.randint(1, 20, (64, 12), generator=make)
        tokens[torch.rand(64, 12, generator=make) < 0.125] = 0
        yield tokens, tokens[:, 2] % 4


def recorded(
    model: nn.Module,
    batches: Iterator[Batch],
    steps: int,
    *,
    lr: Callable[[int], float],
    optimizer: type[torch.optim.Optimizer] = torch.optim.SGD,
    momentum: float | None = 0.9,
    learns: Callable[[str], bool] = lambda name: True,
) -> dict[str, Table]:
    """Train, and write down what a recorder would: numbers each step, tensors each tenth."""
    given = [p for n, p in model.named_parameters() if learns(n)]
    chosen = optimizer(given, lr=lr(0), **({} if momentum is None else {"momentum": momentum}))
    seen: dict[str, torch.Tensor] = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.ReLU | nn.Tanh | nn.Sigmoid):
            module.register_forward_hook(lambda m, i, o, n=name: seen.update({n: (m, i[0], o)}))
    tensors: list[dict[str, Any]] = []
    values: list[dict[str, Any]] = []
    scalars: list[dict[str, Any]] = []
    before: dict[str, Any] = {}
    for step in range(steps):
        at = {"time": START + step * SECOND // 10, "step": step, "rank": 0, "mode": "train", "node": "n0"}
        for group in chosen.param_groups:
            group["lr"] = lr(step)
        inputs, labels = next(batches)
        scores = model(inputs)
        loss = nn.functional.cross_entropy(scores, labels)
        chosen.zero_grad()
        loss.backward()
        chosen.step()
        scalars += [at | {"name": "loss", "value": loss.item()}, at | {"name": "lr", "value": lr(step)}]
        if step % EVERY:
            continue
        for name, parameter in model.named_parameters():
            now = parameter.detach().numpy().copy()
            role = "bias" if name.endswith("bias") else "norm_param" if "norm" in name else "weight"
            tensors.append(at | {"name": name, "role": role} | summary(now, before.get(name)))
            gradient = parameter.grad.numpy() if parameter.grad is not None else np.zeros(0)
            state = "" if parameter.grad is not None else "unused"
            tensors.append(
                at | {"name": f"gradient/{name}", "role": "grad", "state": state} | summary(gradient)
            )
            before[name] = now
        for name, (module, given_in, out) in seen.items():
            function = type(module).__name__.casefold()
            for way, side, tensor in (("input", "in", given_in), ("output", "out", out)):
                array = tensor.detach().numpy()
                label = f"{name}_{way}_0"
                tensors.append(at | {"name": label, "role": f"act_{side}:{function}"} | summary(array))
                axes = tuple(a for a in range(array.ndim) if a != 1)
                counted = [
                    ("active", (array > 0).sum(axis=axes)),
                    ("samples", [array.size // array.shape[1]]),
                ]
                values += _of(at, label, counted if function == "relu" and side == "out" else [])
        inside = [("shape", inputs.shape), ("value", inputs.numpy().ravel())]
        role = "model_input:0" if inputs.is_floating_point() else "token_ids"
        tensors.append(at | {"name": "input_0", "role": role} | summary(inputs.numpy()))
        values += _of(at, "input_0", inside if step % INPUTS_EVERY == 0 else [])
        for name, array in (("labels", labels.numpy()), ("predictions", scores.detach().numpy())):
            tensors.append(at | {"name": name, "role": name} | summary(array))
            values += _of(at, name, [("shape", array.shape), ("value", array.ravel())])
    made = {"tensors": tensors, "tensor_values": values, "scalars": scalars}
    return {name: Table.of(name, rows) for name, rows in made.items()}


def _of(at: dict[str, Any], name: str, kinds: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    return [
        at | {"name": name, "kind": kind, "position": i, "value": float(v)}
        for kind, listed in kinds
        for i, v in enumerate(listed)
    ]
