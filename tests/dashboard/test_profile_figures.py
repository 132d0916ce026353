"""Charts of kernels, loaders and tensors: the numbers are those of the trace and of the training."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from tests.cli.conftest import told
from tests.dashboard.made import ADD, GEMM, HOSTILE, RUN_US, STEP_US, STEPS, imported

from holter.drawing.figure import figure as html
from holter.importers.importing import import_job
from holter.store.job import find
from holter.store.trial import Trial
from holter.views.document.python_profile import segments
from holter.views.figures import chosen, draw
from holter.views.flames import FlameSelection, flames
from holter.views.reading import Reading
from holter.views.tensors import STATISTICS, catalog, first_nonfinite, matching
from holter.views.wording import plain_function, plain_kernel, plain_kernels


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("profiles")
    imported(folder / "store", folder)
    return str(folder / "store")


@pytest.fixture(scope="module")
def traced(store):
    return Reading(Trial(find(store, "trace")), width=50)


@pytest.fixture(scope="module")
def small(profiled):
    return Reading(Trial(find(str(profiled), "small")), width=60)


def parts(figure):
    assert figure.kind == "shares", figure
    return dict(zip(figure.x, figure.series[0].values, strict=True))


RAN_US = sum(RUN_US.values())
KERNELS = {GEMM: RUN_US[GEMM], ADD: RUN_US[ADD]}


def test_active_time_is_when_anything_ran(traced):
    # From the first copy of the first step to the end of the last kernel of the last one, on two GPUs.
    span = (STEPS - 1) * STEP_US + 7000 - 250
    found = parts(draw("gpu_active", traced))
    assert found["active"] == pytest.approx(2 * STEPS * RAN_US / 1e6)
    assert sum(found.values()) == pytest.approx(2 * span / 1e6)
    one = parts(draw("gpu_active", traced, rank=1))
    assert one["active"] == pytest.approx(found["active"] / 2)


def test_utilization_over_time_has_the_same_mean(traced):
    figure = draw("gpu_over_time", traced)
    (series,) = figure.series
    assert figure.kind == "lines"
    known = [value for value in series.values if value is not None]
    share = 100 * STEPS * RAN_US / ((STEPS - 1) * STEP_US + 7000 - 250)
    assert sum(known) / len(known) == pytest.approx(share, abs=1)


@pytest.mark.parametrize("name", ["kernel_time", "kernel_time_top", "kernel_launches", "kernel_launches_top"])
def test_kernels_share_time_and_launches(traced, name):
    found = parts(draw(name, traced))
    wanted = (
        {kernel: 2 * STEPS * us / 1e6 for kernel, us in KERNELS.items()}
        if "time" in name
        else dict.fromkeys(KERNELS, 2 * STEPS)
    )
    assert found == pytest.approx(wanted)
    first = draw(name, traced, most=1)
    assert len(first.x) == (1 if name.endswith("top") else 2)
    assert ("others" in first.x) == (not name.endswith("top"))


def test_what_cannot_be_asked_for_is_said(traced):
    with pytest.raises(ValueError, match="no rank 7 was profiled; there are: 0, 1"):
        draw("kernel_time", traced, rank=7)
    with pytest.raises(ValueError, match="no device 9"):
        draw("kernel_time", traced, device=9)
    with pytest.raises(ValueError, match="valid: 1 to 100"):
        draw("kernel_time", traced, most=0)
    with pytest.raises(ValueError, match="most is 'x'"):
        chosen("kernel_time", {"most": "x"})
    assert chosen("kernel_time", {"most": "3", "rank": "", "other": "1"}) == {"most": 3}


def test_precision_activity_and_memory(traced):
    assert parts(draw("kernel_precision", traced)) == pytest.approx({"bf16": 80, "fp32": 20})
    found = parts(draw("device_activity", traced))
    whole = RAN_US + 500  # the host waits half a millisecond in each step
    assert found["kernels that compute"] == pytest.approx(100 * 5000 / whole)
    assert found["copies and fills of memory"] == pytest.approx(100 * 500 / whole)
    assert found["host waits for the GPU"] == pytest.approx(100 * 500 / whole)
    copies = parts(draw("memory_operations", traced))
    assert copies == pytest.approx({"Memcpy HtoD pageable": 2 * STEPS * 500 / 1e6})


def test_steps_and_ranges_are_measured_on_host_and_gpu(traced):
    steps = draw("device_step_histogram", traced)
    assert sum(steps.series[0].values) == 2 * STEPS
    assert "median 6.75" in steps.note  # from the copy to the end of the last kernel
    host = draw("annotation_histogram", traced, annotation="augment")
    assert sum(host.series[0].values) == 2 * STEPS
    assert "median 0.15 ms," in host.note
    gpu = draw("annotation_histogram", traced, annotation="train.py(10): main", where="gpu")
    assert "median 6.75" in gpu.note
    assert isinstance(draw("annotation_histogram", traced, annotation="none"), str)
    with pytest.raises(ValueError, match="valid: host, gpu"):
        draw("annotation_histogram", traced, annotation="augment", where="moon")


def test_a_window_of_time_keeps_what_began_in_it(traced):
    first = traced.at((0.0, STEP_US / 1e6), 50)
    found = parts(draw("kernel_launches", first))
    assert sum(found.values()) == 2 * 2
    assert first.profiled is traced.profiled  # read once for all


def test_memory_over_time_peaks_where_the_counter_does(traced):
    figure = draw("device_memory", traced)
    highest = max(value for series in figure.series for value in series.values if value is not None)
    assert highest == pytest.approx(2.2, rel=0.01)


def test_without_kernels_samples_tell_and_the_rest_says_how(tmp_path):
    folder, _ = told("before", str(tmp_path / "store"), ranks=2, cores=2, steps=60, samples=80)
    reading = Reading(Trial(folder), width=40)
    found = parts(draw("gpu_active", reading))
    assert set(found) == {"active", "idle"}
    assert len(draw("gpu_over_time", reading).series) == 1
    for name in ("kernel_time", "kernel_precision", "device_activity", "memory_operations", "launch_delays"):
        assert "holter profile" in draw(name, reading)


def test_every_drawing_escapes_what_a_trace_calls_things(traced):
    for name in ("kernel_time", "kernel_launches_top"):
        text = html(draw(name, traced))
        assert "<img" not in text
        assert "<script>" not in text
    assert HOSTILE not in html(draw("annotation_histogram", traced, annotation=HOSTILE))


def test_kernels_are_called_short(traced):
    figure = draw("kernel_time", traced)
    assert "vectorized_elementwise_kernel<AddFunctor>" in figure.labels
    assert plain_kernel("volta_sgemm_128x32_nn") == "volta_sgemm_128x32_nn"
    assert plain_kernel("void at::native::add<4, f<int>>(int, x<2>)") == "add<…>"
    assert (
        plain_kernel("void at::native::(anonymous namespace)::f<float, at::CUDAFunctor<x> >(int)")
        == "f<CUDAFunctor>"
    )
    assert plain_kernel("a < b") == "a < b"
    silu = "void at::native::vectorized_elementwise_kernel<4, at::silu_kernel(at::Base&)::{lambda()#1}>(int)"
    assert plain_kernel(silu) == "vectorized_elementwise_kernel<silu_kernel>"
    multiply = "void at::native::elementwise_kernel<128, 4, BinaryFunctor<float, MulFunctor<float> > >(int)"
    assert plain_kernel(multiply) == "elementwise_kernel<MulFunctor>"
    copies = [
        f"void at::native::CatArrayBatchedCopy<float, unsigned int, 2, {size}>(float*)" for size in (128, 64)
    ]
    assert plain_kernels([*copies, "volta"]) == [
        "CatArrayBatchedCopy<…> …128>(float*)…",
        "CatArrayBatchedCopy<…> …64>(float*)…",
        "volta",
    ]
    gemm = "cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x4_tn"
    assert plain_kernel(f"void cutlass::Kernel<{gemm}>(Params)") == gemm


def test_functions_are_called_without_the_folder_of_their_package():
    assert plain_function("f (/a/lib/python3.11/site-packages/torch/x.py:7)") == "f (torch/x.py:7)"
    assert plain_function("f (/a/3.11.7/lib/python3.11/queue.py:7)") == "f (queue.py:7)"
    assert plain_function("f (/home/me/train.py:7)") == "f (/home/me/train.py:7)"


def test_loader_figures_follow_each_batch(small):
    workers = draw("loader_workers", small)
    assert workers.rows[0] == "training waits"
    assert {"worker 0", "worker 1"} <= set(workers.rows)
    built = next(series for series in workers.series if series.name == "builds a batch")
    for begin, end in zip(built.low, built.high, strict=True):
        assert workers.x[0] <= begin <= end <= workers.x[1]
    flying = draw("batches_in_flight", small)
    building = [value for value in flying.series[0].values if value is not None]
    assert 0 < max(building) <= 5  # two workers, two batches ahead each, and one that is handed over
    sizes = draw("batch_sizes", small)
    assert (sizes.kind, sizes.series[0].values) == ("constants", [4.0])
    assert sizes.note == "All 48 batches."
    fetch = draw("fetch_times", small)
    assert sum(fetch.series[0].values) + ("Not drawn" in fetch.note) >= 47
    assert max(v for v in draw("loader_waits", small).series[0].values if v is not None) > 1


def test_flames_of_samples_and_of_workers(small):
    found = {one["source"]: one for one in flames(small.trial)}
    assert {"pyinstrument", "loader"} <= set(found)
    workers = found["loader"]
    assert any("decode_image" in one["name"] for one in workers["functions"])

    def whole(node):
        below = node.get("children", ())
        assert sum(child["value"] for child in below) <= node["value"]
        for child in below:
            whole(child)

    for one in found.values():
        whole(one["flame"])
        json.dumps(one)
    assert not [
        one for one in flames(small.trial, FlameSelection(first_step=40)) if one["source"] == "pyinstrument"
    ]


def test_the_host_of_a_trace_is_a_flame_too(traced):
    (one,) = [one for one in flames(traced.trial, FlameSelection(rank=0)) if one["source"] == "host"][:1]
    names = {child["name"] for child in one["flame"]["children"]}
    assert "ProfilerStep" in names
    assert not any("#" in name for name in names), "all steps are one tower"
    functions = {row["name"]: row for row in one["functions"]}
    assert functions["aten::mm"]["total_ns"] == STEPS * 300_000
    assert functions["train.py(10): main"]["self_ns"] == STEPS * (9000 - 300) * 1000


def test_segments_name_steps_parts_and_profilers(small):
    found = segments(small.trial)
    assert {one["profiler"] for one in found} == {"cprofile", "pyinstrument"}
    assert {one["step"] for one in found if one["profiler"] == "cprofile"} <= {16, 17, 18, 19, 20}
    assert {"forward", "backward"} <= {one["phase"] for one in found}


def test_tensors_are_listed_searched_and_drawn(small):
    rows = catalog(small.trial)
    names = [row["name"] for row in rows]
    assert "gradient/0.weight" in names
    found = matching(rows, "grad weight")
    assert {row["name"] for row in found} == {"gradient/0.weight", "gradient/2.weight"}
    assert {row["name"] for row in matching(rows, "", "gradients")} >= {"gradient/0.bias", "gradient/2.bias"}
    histories = draw("tensor_histories", small, tensor="gradient/0.weight\ngradient/2.weight", statistic="l2")
    assert len(histories.series) == 2
    stored = small.trial.table("tensors", where="name = 'gradient/0.weight'")
    first = stored["step"].argmin()
    size = float(
        (stored["std"][first] ** 2 + stored["mean"][first] ** 2) ** 0.5 * stored["count"][first] ** 0.5
    )
    assert histories.series[0].values[0] == pytest.approx(size, rel=1e-4)
    weights = draw("tensor_histogram", small, tensor="0.weight")
    assert weights.kind == "heatmap"
    for column in zip(*(series.values for series in weights.series), strict=True):
        assert sum(value or 0 for value in column) == pytest.approx(100, rel=1e-3)
    with pytest.raises(ValueError, match="did you mean 'update_ratio'"):
        draw("layer_map", small, statistic="update_rato")


@pytest.mark.parametrize("statistic", list(STATISTICS))
def test_every_statistic_maps_layers_or_says_what_is_missing(small, statistic):
    figure = draw("layer_map", small, statistic=statistic, role="any")
    assert not isinstance(figure, str), statistic
    assert len(figure.series) >= {"dead": 1, "update_ratio": 2, "delta_l2": 2}.get(statistic, 4)
    assert all(len(series.values) == len(figure.x) for series in figure.series)
    assert "<svg" in html(figure)


def test_the_gradient_map_has_one_row_for_each_parameter(small):
    figure = draw("layer_map", small)
    assert {series.name for series in figure.series} == {
        f"gradient/{layer}.{part}" for layer in (0, 2) for part in ("weight", "bias")
    }
    assert figure.y_axis.log


def test_a_healthy_training_has_no_first_nan(small):
    assert first_nonfinite(small.trial) is None


@pytest.mark.parametrize(
    "trace",
    [
        "kineto/resnet50_num_workers_0_worker0.1623143089861.pt.trace.json.gz",
        "tracelens/mi300_resnet_act_checkpoint.json.gz",
        "param/dlrm_8rank",
        "pipit/saxpy-mpi-cuda.nsys.sqlite",
    ],
)
def test_charts_of_real_traces_agree_with_what_is_told_of_them(trace, tmp_path):
    path = Path(os.environ.get("HOLTER_DATA", "../shared/data")) / "traces" / trace
    if not path.exists():
        pytest.skip(f"{path} is not here; HOLTER_DATA names the folder of real traces")
    folder, _ = import_job([path], str(tmp_path / "store"), "real", now_ns=time.time_ns())
    reading = Reading(Trial(folder))
    told = [one for one in reading.description["trace"]["breakdowns"] if one["definition"] == "all"]
    found = parts(draw("gpu_active", reading))
    assert found["idle"] == pytest.approx(sum(one["idle_us"] for one in told) / 1e6)
    assert sum(found.values()) == pytest.approx(sum(one["span_us"] for one in told) / 1e6)
    kernels = draw("kernel_time", reading, most=100)
    if not isinstance(kernels, str):
        whole = reading.trial.table("kernels", columns=("duration",))["duration"].sum() / 1e9
        assert sum(kernels.series[0].values) == pytest.approx(whole)
        assert "<svg" in html(kernels)
    figure = draw("gpu_over_time", reading)
    known = [value for series in figure.series for value in series.values if value is not None]
    assert known
    assert all(0 <= value <= 100.0001 for value in known)
