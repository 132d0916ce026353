"""On a GPU: the same numbers as on the host, and not one step that waits for the device."""

from __future__ import annotations

import pytest
import torch
from tests.recorder.tensors.reading import near
from torch import nn

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can use"),
]


def test_nothing_waits_and_the_numbers_are_those_of_the_host(watch):
    training = watch("all@2:histogram,exponents,shape")
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    batch = torch.randn(32, 64, device="cuda")
    seen = {}
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for step in range(8):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            seen[step] = {name: one.detach().clone() for name, one in model.named_parameters()}
            seen[step] |= {f"gradient/{name}": one.grad.clone() for name, one in model.named_parameters()}
            optimizer.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    found = training.end()
    for step in (0, 2, 4, 6):
        for name, tensor in seen[step].items():
            row, values = found.row(name, step), tensor.double().cpu()
            assert near(row["mean"], float(values.mean()), 1e-5)
            assert near(row["std"], float(values.std(correction=0)), 1e-5)
            assert row["max"] == float(values.max())
            assert sum(found.values[step, name, "histogram"]) == tensor.numel()
    assert found.steps("1_output_0") == [0, 2, 4, 6]
    assert 0 in training.scalars("grad_norm")
    assert training.scalars("cuda.allocated")
