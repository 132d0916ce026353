"""What windows with shapes say that operators cost is what torch itself counts."""

from __future__ import annotations

import json
from collections import Counter

import pytest
import torch
from tests.windows.test_operators import texts, trained
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as attend
from torch.utils import flop_counter

from holter.analysis.device.operator_costs import KNOWN, operator_cost
from holter.analysis.device.roofline import roofline
from holter.schema.table import Table


class Model(nn.Module):
    """A first convolution, whose input needs no gradient; a transposed one; products of all kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 6, (3, 5), stride=2, dilation=(2, 1))
        self.up = nn.ConvTranspose2d(6, 2, 3, stride=2, output_padding=1)
        self.out = nn.Linear(12, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.up(self.second(self.first(images)).relu())
        x = x[:, :, :12, :12].flatten(1, 2)
        x = torch.baddbmm(x[:, :12], x[:, :12], x[:, 12:])
        return self.out(x @ x.transpose(1, 2))


def counted(found: dict) -> tuple[Counter, list[dict]]:
    """Return what a window's operators cost in all, by name, and the rows of its roofline."""
    columns = {
        name: texts(column) if isinstance(column, tuple) else column.tolist()
        for name, column in found["operators"].items()
    }
    made = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    listed = list(roofline({"operators": Table.of("operators", made)}, on_host=True).to_rows())
    flops: Counter = Counter()
    for row in listed:
        flops[row["name"]] += row["flops"]
    return flops, listed


def test_products_and_convolutions_forward_and_backward(train):
    model, images = Model(), torch.randn(2, 3, 20, 20)
    _, found = trained(train, lambda step: model(images).sum().backward(), shapes=True)
    with flop_counter.FlopCounterMode(display=False) as theirs:
        model(images).sum().backward()
    expected = {
        f"aten::{str(name).removeprefix('aten.')}": 3 * flops
        for name, flops in theirs.get_flop_counts()["Global"].items()
    }
    flops, listed = counted(found)
    assert flops == expected
    assert flops.keys() == {
        "aten::convolution", "aten::convolution_backward", "aten::mm", "aten::bmm", "aten::addmm",
        "aten::baddbmm",
    }  # fmt: skip
    for row in listed:
        assert (row["side"], row["device_ns"], row["bound"]) == ("host", 0, "")
        assert row["tflops"] == pytest.approx(row["flops"] / row["host_ns"] / 1e3)


def test_groups_of_a_convolution_cost_what_convolutions_of_each_do(train):
    images = torch.randn(2, 6, 9, 9, requires_grad=True)
    whole = nn.Conv2d(6, 4, 3, groups=2)
    parts = nn.ModuleList([nn.Conv2d(3, 2, 3), nn.Conv2d(3, 2, 3)])

    def divided(step):
        sum(part(half).sum() for part, half in zip(parts, images.split(3, dim=1), strict=True)).backward()

    _, grouped = trained(train, lambda step: whole(images).sum().backward(), shapes=True)
    _, apart = trained(train, divided, shapes=True)
    assert counted(grouped)[0] == counted(apart)[0]


def test_attention_forward_and_backward(train):
    q, k, v = (torch.randn(2, 4, n, 8, requires_grad=True) for n in (16, 24, 24))
    shapes = [list(one.shape) for one in (q, k, v)]
    name = "aten::_scaled_dot_product_flash_attention_for_cpu"
    ahead = 3 * flop_counter.sdpa_flop_count(*shapes)
    back = 3 * flop_counter.sdpa_backward_flop_count(shapes[0], *shapes)
    for causal, part in ((False, 1), (True, 2)):

        def work(step, causal=causal):
            attend(q, k, v, is_causal=causal).sum().backward()

        _, found = trained(train, work, shapes=True)
        flops, _ = counted(found)
        assert (flops[name], flops[f"{name}_backward"]) == (ahead // part, back // part)


@pytest.mark.parametrize("name", [name for name in KNOWN if "attention" in name])
def test_what_is_taken_for_causal_is_that(name):
    """A call of the GPU's attention is built by torch's own schema, and costs half when it is causal."""
    names = [one.name for one in torch._C._jit_get_schemas_for_operator(name)[0].arguments]
    shape = [2, 4, 16, 8]
    inputs = ("grad_out", "grad_out_", "query", "key", "value")
    dims = [shape if one in inputs else [] for one in names]
    costs = []
    for causal in (False, True):
        concrete = [causal if one == "is_causal" else None for one in names]
        costs.append(operator_cost(name, json.dumps({"shapes": dims, "concrete": concrete})))
    whole, half = costs
    torchs = flop_counter.sdpa_backward_flop_count if "backward" in name else flop_counter.sdpa_flop_count
    assert whole.flops == torchs(*[shape] * (4 if "backward" in name else 3))
    assert half.flops == whole.flops // 2


def test_arguments_are_kept_where_they_count_and_are_short(train):
    model = nn.Conv3d(2, 300, 3)

    def work(step):
        model(torch.ones(1, 2, 4, 4, 4)).sum().backward()
        torch.ones(4).as_strided((2, 2), (1, 1))

    _, found = trained(train, work, shapes=True)
    table = found["operators"]
    details = dict(zip(texts(table["name"]), texts(table["detail"]), strict=True))
    told = {name: json.loads(text)["concrete"] for name, text in details.items() if '"concrete"' in text}
    assert told == {
        "aten::convolution": [None, None, None, [1] * 3, [0] * 3, [1] * 3, False, [0] * 3, 1],
        "aten::convolution_backward": [
            None, None, None, [300], [1] * 3, [0] * 3, [1] * 3, False, [0] * 3, 1, [False, True, True],
        ],
    }  # fmt: skip
