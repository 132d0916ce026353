"""A small training whose options each change one thing that its numbers depend on."""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}


class Halves(nn.Linear):
    """A linear layer that adds the sums over two halves of its inputs: the same but for round-off."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        half = self.in_features // 2
        left = nn.functional.linear(inputs[:, :half], self.weight[:, :half])
        return left + nn.functional.linear(inputs[:, half:], self.weight[:, half:], self.bias)


class Block(nn.Module):
    """A residual block."""

    def __init__(self, width: int, eps: float, activation: str, linear: type[nn.Linear]) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=eps)
        self.up = linear(width, 2 * width)
        self.act = ACTIVATIONS[activation]()
        self.down = linear(2 * width, width)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs + self.down(self.act(self.up(self.norm(inputs))))


class Net(nn.Module):
    """Two blocks between two linear layers."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        linear = Halves if options.halves else nn.Linear
        width = options.width
        self.first = linear(32, width)
        self.blocks = nn.ModuleList(
            [
                Block(width, 1e-5, "relu", linear),
                Block(width, options.eps, options.activation, linear),
            ]
        )
        self.head = linear(width, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        inputs = self.first(inputs)
        for block in self.blocks:
            inputs = block(inputs)
        return self.head(inputs)


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--order", type=int, default=0, help="seed of the order of the data")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--eps", type=float, default=1e-5, help="of the layer norm in the second block")
    parser.add_argument("--activation", choices=ACTIVATIONS, default="relu", help="in the second block")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--decay", type=float, default=0.01, help="weight decay")
    parser.add_argument("--halves", action="store_true", help="add other partial sums")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    data = torch.Generator().manual_seed(1)
    inputs = torch.randn(64 * options.steps, 32, generator=data)
    labels = (inputs[:, :4]).argmax(1)
    order = torch.Generator().manual_seed(options.order)
    dtype = getattr(torch, options.dtype)
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=64, shuffle=True, generator=order)
    torch.manual_seed(options.seed)
    model = Net(options).to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=options.decay)
    loss_function = nn.CrossEntropyLoss()
    for batch, target in loader:
        optimizer.zero_grad()
        loss = loss_function(model(batch.to(dtype)), target)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
