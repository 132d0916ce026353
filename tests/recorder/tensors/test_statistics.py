"""Statistics agree with NumPy in double precision, on the path for the host and on that for a device."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.recorder.tensors.reading import near

from holter.recorder.frameworks.pytorch.tensors.batched_rows import BatchedRows, PendingRow
from holter.recorder.frameworks.pytorch.tensors.fingerprints import Fingerprints
from holter.recorder.frameworks.pytorch.tensors.on_device import on_device
from holter.recorder.frameworks.pytorch.tensors.statistics import EXACT, Statistics
from holter.recorder.frameworks.pytorch.tensors.values import BINS, LOWEST_EXPONENT, described
from holter.recorder.native import sums
from holter.schema.tensor_spool import Values


@pytest.fixture(params=["passes", "at once"])
def way(request, monkeypatch):
    """Statistics as torch makes them in several passes, and as the compiled sums do in one."""
    if request.param == "passes":
        monkeypatch.setenv("HOLTER_COMPILE", "0")
    sums.compiled.cache_clear()
    if request.param == "at once" and sums.compiled() is None:
        pytest.skip("sums were not compiled here: `python hatch_build.py` says why")
    yield request.param
    sums.compiled.cache_clear()


NAN, INF = float("nan"), float("inf")


def tensors():
    generator = torch.Generator().manual_seed(3)
    normal = torch.randn(70, 33, generator=generator)
    many = torch.randn(300_001, generator=generator)
    return {
        "normal": normal,
        "large": many,
        "far from zero": many * 1e-3 + 100,
        "vanishing": normal * 1e-26,
        "exploding": normal * 1e36,
        "relu": many.relu(),
        "faint": many * 1e-13,
        "mean as large as the spread": many * 1e-3 + 2e-3,
        "many near zero": torch.where(many > 0.5, many, torch.where(many > 0, 1e-39, 0.0)),
        "half precision near zero": (torch.rand(9_001, generator=generator) * 2e-4).half(),
        "a NaN in the last block": torch.cat([many, torch.tensor([NAN, 1.0])]),
        "bfloat16": many.bfloat16(),
        "every half": torch.arange(1 << 16).to(torch.int16).view(torch.float16).nan_to_num(0.0, 0.0, 0.0) / 2,
        "float16": normal.half(),
        "float8": normal.to(torch.float8_e4m3fn),
        "float64": normal.double() * 1e200,
        "subnormal": torch.tensor([1e-40, 0.0, -1e-41, 1.0]),
        "transposed": normal.t(),
        "sliced": normal[::2, 1::3],
        "whole numbers": torch.randint(-5, 5, (999,), generator=generator),
        "booleans": torch.rand(100, generator=generator) > 0.5,
        "complex": torch.randn(50, dtype=torch.complex64, generator=generator),
        "constant": torch.full((300_000,), 0.1),
        "one": torch.tensor(-2.5),
        "not finite": torch.tensor([1.0, NAN, INF, -INF, 0.0, -3.0, NAN]),
        "nothing finite": torch.tensor([NAN, INF]),
        "empty": torch.empty(0, 3),
        "expanded": normal[:, None, :, None].expand(-1, 7, -1, 30),
        "expanded, not finite": torch.tensor([1.0, NAN, INF, 3.0, -1e-40]).half()[:, None].expand(5, 9001),
        "expanded from one": torch.tensor(0.0).expand(50_000),
        "expanded whole numbers": torch.arange(4)[None].expand(2_000, 4),
    }


def expected(tensor):
    whole = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    values = (whole.float() if whole.dtype.itemsize < 4 else whole).double().numpy().ravel()
    sound = values[np.isfinite(values)]
    tiny = torch.finfo(tensor.dtype).smallest_normal if tensor.dtype.is_floating_point else 0.0
    counts = [
        tensor.numel(),
        int(np.isnan(values).sum()),
        int(np.isposinf(values).sum()),
        int(np.isneginf(values).sum()),
        int((sound == 0).sum()),
        int(((np.abs(sound) < tiny) & (sound != 0)).sum()),
    ]
    if not len(sound):
        return counts, [NAN] * 8
    with np.errstate(over="ignore"):
        moments = [sound.min(), sound.max(), sound.mean(), sound.std(), np.abs(sound).mean()]
    return counts, [*moments, *np.quantile(sound, [0.05, 0.5, 0.95])]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", tensors())
def test_statistics_agree_with_numpy(name):
    tensor = tensors()[name]
    statistics = Statistics(torch)
    found = statistics.of(tensor)
    counts, numbers = expected(tensor)
    assert list(found.counts) == counts
    exact = 8 if tensor.numel() <= EXACT else 5
    for one, other in zip(found.statistics, numbers, strict=True):
        assert near(one, other) or not name.startswith("expanded")  # quantiles too
    if name == "float64":  # squares leave even double precision
        exact = 3
    for one, other in zip(found.statistics[:exact], numbers[:exact], strict=True):
        assert near(one, other), (found.statistics, numbers)
    if name in (
        "subnormal",
        "empty",
        "float64",
    ):  # devices may flush what is below the smallest normal number
        return
    device = on_device(torch, tensor).tolist()
    assert [int(one) for one in device[:5]] == counts[1:]
    for one, other in zip(device[5 : 5 + exact], numbers[:exact], strict=True):
        assert near(one, other), (device, numbers)


@pytest.mark.usefixtures("way")
def test_parts_join_to_the_whole():
    tensor = torch.cat([tensors()["large"] * 3 + 1, torch.full((9_000,), NAN), torch.zeros(10)]).bfloat16()
    found = Statistics(torch, slab=7_000).of(tensor)
    counts, numbers = expected(tensor)
    assert list(found.counts) == counts
    for one, other in zip(found.statistics[:5], numbers[:5], strict=True):
        assert near(one, other)


def test_quantiles_of_a_large_tensor_are_near():
    found = Statistics(torch).of(tensors()["large"])
    for one, other in zip(found.statistics[5:], [-1.645, 0.0, 1.645], strict=True):
        assert abs(one - other) < 0.15


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float64, torch.uint8, torch.complex128]
)
def test_a_fingerprint_tells_tensors_apart(dtype):
    fingerprints = Fingerprints(torch)
    tensor = (torch.arange(150_001) % 100).to(dtype)
    seen = {int(fingerprints.of(tensor))}
    assert int(fingerprints.of(tensor.clone())) in seen
    for place in (0, 3000, 150_000):
        other = tensor.clone()
        other[place] += 1
        seen.add(int(fingerprints.of(other)))
    swapped = tensor.clone()
    swapped[[10, 11]] = tensor[[11, 10]]
    seen.add(int(fingerprints.of(swapped)))
    assert len(seen) == 5


@pytest.mark.usefixtures("way")
def test_the_change_of_a_tensor():
    generator = torch.Generator().manual_seed(5)
    statistics = Statistics(torch)
    for dtype, scale in (
        (torch.float32, 1e-3),
        (torch.float32, 1e-25),
        (torch.float64, 1),
        (torch.bfloat16, 1),
    ):
        before = torch.randn(3, 70_001, generator=generator).to(dtype) * scale
        after = before + torch.randn(before.shape, generator=generator).to(dtype) * scale * 0.1
        difference = np.abs(after.double().numpy() - before.double().numpy())
        wanted = np.linalg.norm(difference), difference.mean(), difference.max()
        found = statistics.change(after, before)
        assert all(near(one, float(other)) for one, other in zip(found, wanted, strict=True)), (dtype, scale)
        assert torch.equal(before, after)
        assert statistics.change(after, before) == (0, 0, 0)


@pytest.mark.parametrize(
    "name",
    ["large", "far from zero", "vanishing", "faint", "many near zero", "constant", "bfloat16", "every half"],
)
def test_statistics_and_change_in_one_pass(name, way):
    assert (sums.compiled() is not None) == (way == "at once")
    tensor = tensors()[name]
    step = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(7)) * tensor.abs().mean() * 0.01
    before = tensor - step.to(tensor.dtype)
    difference = np.abs(tensor.double().numpy() - before.double().numpy())
    found, change = Statistics(torch).brief(tensor, before)
    counts, numbers = expected(tensor)
    assert list(found.counts) == counts
    wanted = np.linalg.norm(difference), difference.mean(), difference.max()
    for one, other in zip((*found.statistics[:5], *change), (*numbers[:5], *wanted), strict=True):
        assert near(one, float(other))
    assert torch.equal(before, tensor)


@pytest.mark.usefixtures("way")
def test_a_change_that_is_not_finite():
    tensor, before = torch.ones(5000), torch.ones(5000)
    tensor[4000] = INF
    found, change = Statistics(torch).brief(tensor, before)
    assert found.counts == (5000, 0, 1, 0, 0, 0)
    assert change == (INF, INF, INF)
    found, change = Statistics(torch).brief(tensor, before)
    assert found.statistics[:2] == (1, 1)
    assert all(one != one for one in change)


def test_what_describes_a_tensor():
    tensor = torch.tensor([[0.0, 1.0, 3.0], [-1.0, 0.25, NAN], [0.0, 2.0**70, INF]])
    found = dict(
        described(
            torch,
            tensor,
            "act_out:relu",
            {"shape", "values", "histogram", "exponents", "active"},
            Statistics(torch),
        )
    )
    assert found[Values.SHAPE].tolist() == [3, 3]
    assert found[Values.VALUE].tolist()[:3] == [0, 1, 3]
    assert found[Values.SAMPLES].tolist() == [3]
    assert found[Values.ACTIVE].tolist() == [0, 3, 2]
    assert (len(found[Values.HISTOGRAM]), found[Values.HISTOGRAM].sum().item()) == (BINS, 7)
    exponents = {
        at + LOWEST_EXPONENT: int(count) for at, count in enumerate(found[Values.EXPONENTS]) if count
    }
    assert exponents == {-2: 1, 0: 2, 1: 1, 63: 1}


def test_a_histogram_is_numpys():
    values = torch.linspace(-3, 5, 1000) ** 3
    (_, histogram), *_ = described(torch, values, "", {"histogram"}, Statistics(torch))
    assert np.abs(histogram.numpy() - np.histogram(values.numpy(), BINS)[0]).max() <= 1


def test_small_tensors_together_are_as_each_alone():
    statistics, fingerprints = Statistics(torch), Fingerprints(torch)
    together, found = BatchedRows(torch, statistics, fingerprints), {}
    given = {name: one for name, one in tensors().items() if together.takes(one)}
    assert len(given) >= 8
    given |= {f"another {name}": one * 2 for name, one in given.items()}
    before = {name: one.clone().zero_() for name, one in given.items() if "a" in name}

    for name, one in given.items():

        def done(*told, name=name):
            found[name] = told

        together.add(PendingRow(one, before.get(name), "o" in name, "n" in name, done))
    together.complete()
    assert set(found) == set(given)
    for name, one in given.items():
        summary, deltas, fingerprint = found[name]
        alone = statistics.of(one, quantiles="n" in name)
        assert summary.counts == alone.counts
        assert all(map(near, summary.statistics, alone.statistics)), (name, summary, alone)
        assert fingerprint == (int(fingerprints.of(one)) if "o" in name else 0)
        if name not in before:
            assert all(delta != delta for delta in deltas)
        elif torch.isfinite(one).all():
            size = one.double().abs()
            assert all(map(near, deltas, (float(size.norm()), float(size.mean()), float(size.max()))))
            assert torch.equal(before[name], one)
    together.complete()  # nothing waits any more


@pytest.mark.parametrize("change", [torch.t, lambda one: one[:, ::2], lambda one: one.expand(3, -1, -1)])
def test_a_large_tensor_is_not_copied_into_one_row(change):
    tensor = change(tensors()["large"][:300_000].view(600, 500))
    assert not tensor.is_contiguous()
    found = Statistics(torch, slab=7_000).of(tensor)
    counts, numbers = expected(tensor)
    assert list(found.counts) == counts
    assert all(map(near, found.statistics[:5], numbers[:5]))
