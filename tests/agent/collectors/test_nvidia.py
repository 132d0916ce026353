"""The real binding loads a driver library that is compiled here and answers from a file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.agent.conftest import SOURCE

ANSWERS = """\
count 0 2
name 0 NVIDIA H100 80GB HBM3
name 1 NVIDIA H100 80GB HBM3
uuid 0 GPU-aaaa-1
uuid 1 GPU-bbbb-2
utilization 0 93 41
utilization 1 7 0
memory 0 85899345920 42949672960
memory 1 85899345920 1073741824
temperature 0 64
temperature 1 33
power 0 612345
power 1 71000
power_limit 0 700000
power_limit 1 700000
clock 0 1755
clock 1 345
clock_max 0 1980
clock_max 1 1980
throttle 0 0x4
throttle 1 0x1
pcie_rx 0 2048
pcie_tx 0 1024
pcie_rx 1 8
pcie_tx 1 4
ecc 0 0
ecc 1 2
slowdown 0 92
slowdown 1 92
memory_temperature 0 88
memory_temperature 1 40
replays 0 0
replays 1 7
gen 0 5
gen 1 1
gen_max 0 5
gen_max 1 5
width 0 16
width 1 8
width_max 0 16
width_max 1 16
remapped 0 0 0 0 0
remapped 1 3 1 1 0
xid 1 79
"""

READ = """
import json, sys
from pathlib import Path
import os
from holter.agent.collectors import Machine, Unavailable, Watched
from holter.agent.collectors.nvidia import Nvidia
answers = Path(os.environ["FAKE_NVML"])
answers.write_text(answers.read_text().replace("OWN", str(os.getpid())))
try:
    collector = Nvidia(Machine(watched=Watched(roles={os.getpid(): "trainer"})))
except Unavailable as why:
    print(json.dumps({"unavailable": str(why)}))
    raise SystemExit
rounds = []
for at in (0, 10, 2_000_000_000, 6_000_000_000):
    if at == 10 and len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(Path(sys.argv[1]).read_text().replace(sys.argv[2], sys.argv[3]))
    rounds.append([list(reading) for reading in collector.read(at)])
print(json.dumps({"facts": collector.facts(), "rounds": rounds, "missing": collector.missing}))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")

    def build(*options: str) -> Path:
        folder = tmp_path_factory.mktemp("nvml")
        source = Path(__file__).with_name("nvml.c")
        target = folder / "libnvidia-ml.so.1"
        subprocess.run([compiler, "-shared", "-fPIC", *options, "-o", target, source], check=True)
        return folder

    return build


@pytest.fixture
def read(tmp_path):
    def ask(folder: Path, answers: str = ANSWERS, *change: str, **environment: str) -> dict:
        path = tmp_path / "answers"
        path.write_text(answers)
        variables = {
            **os.environ,
            "PYTHONPATH": str(SOURCE),
            "LD_LIBRARY_PATH": str(folder),
            "FAKE_NVML": str(path),
            **environment,
        }
        arguments = [str(path), *change] if change else []
        output = subprocess.run(
            [sys.executable, "-c", READ, *arguments],
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert output.returncode == 0, output.stderr
        return json.loads(output.stdout)

    return ask


def values(round_: list) -> dict:
    return {(device, metric): value for device, metric, value in round_}


def test_every_reading_comes_with_its_unit(library, read):
    found = read(library())
    first = values(found["rounds"][0])
    assert first["gpu0", "gpu.util"] == 93
    assert first["gpu0", "gpu.mem.busy"] == 41
    assert first["gpu0", "gpu.mem.used"] == 42949672960
    assert first["gpu0", "gpu.mem.used_pct"] == 50
    assert first["gpu0", "gpu.temp"] == 64
    assert first["gpu0", "gpu.power"] == pytest.approx(612.345)
    assert first["gpu0", "gpu.power_limit"] == 700
    assert first["gpu0", "gpu.clock_sm"] == 1755
    assert first["gpu0", "gpu.clock_sm_max"] == 1980
    assert first["gpu0", "gpu.throttle_reasons"] == 4
    assert first["gpu1", "gpu.ecc_uncorrected"] == 2
    assert first["gpu1", "gpu.util"] == 7
    assert found["missing"] == []
    assert found["facts"][0] == {
        "device": "gpu0",
        "name": "NVIDIA H100 80GB HBM3",
        "memory_bytes": 85899345920,
    }


def test_the_dear_reading_is_taken_once_a_second_of_one_gpu_in_turn(library, read):
    rounds = [values(one) for one in read(library())["rounds"]]
    assert rounds[0]["gpu0", "gpu.pcie_rx"] == 2048 * 1024
    assert rounds[0]["gpu0", "gpu.pcie_tx"] == 1024 * 1024
    assert not any(metric.startswith("gpu.pcie") for _, metric in rounds[1])
    assert rounds[2]["gpu1", "gpu.pcie_rx"] == 8 * 1024
    assert ("gpu0", "gpu.pcie_rx") not in rounds[2]


def test_what_a_gpu_cannot_say_is_left_out_and_named(library, read):
    answers = "\n".join(line for line in ANSWERS.splitlines() if not line.startswith("power 1"))
    found = read(library(), answers)
    first = values(found["rounds"][0])
    assert ("gpu1", "gpu.power") not in first
    assert ("gpu0", "gpu.power") in first
    assert found["missing"] == [["gpu.power of gpu1", "Not Supported"]]


def test_an_old_driver_lacks_a_function_only(library, read):
    found = read(library("-DOLD_DRIVER"))
    first = values(found["rounds"][0])
    assert ("gpu0", "gpu.ecc_uncorrected") not in first
    assert first["gpu0", "gpu.util"] == 93
    assert [what for what, _ in found["missing"]] == [
        "gpu.ecc_uncorrected of gpu0",
        "gpu.ecc_uncorrected of gpu1",
    ]


def test_a_gpu_that_is_lost_is_named_and_the_other_goes_on(library, read):
    found = read(library(), ANSWERS, "utilization 0 93 41", "utilization 0 error 15")
    second = values(found["rounds"][1])
    assert ("gpu0", "gpu.util") not in second
    assert second["gpu1", "gpu.util"] == 7
    assert "gpu0" in [what for what, _ in found["missing"]]
    assert {device for device, _ in values(found["rounds"][2])} == {"gpu1"}


def test_what_tells_of_sick_hardware_is_read_now_and_then_and_an_error_once(library, read):
    rounds = [values(one) for one in read(library())["rounds"]]
    assert rounds[0]["gpu0", "gpu.temp_slowdown"] == 92
    assert rounds[0]["gpu0", "gpu.mem_temp"] == 88
    assert rounds[0]["gpu1", "gpu.pcie_replays"] == 7
    assert (rounds[0]["gpu1", "gpu.pcie_gen"], rounds[0]["gpu1", "gpu.pcie_gen_max"]) == (1, 5)
    assert (rounds[0]["gpu1", "gpu.pcie_width"], rounds[0]["gpu1", "gpu.pcie_width_max"]) == (8, 16)
    assert (rounds[0]["gpu1", "gpu.remap_pending"], rounds[0]["gpu1", "gpu.remap_failed"]) == (1, 0)
    assert [(r.get(("gpu0", "gpu.xid")), r.get(("gpu1", "gpu.xid"))) for r in rounds] == [
        (None, 79), (None, None), (None, None), (None, None)
    ]  # fmt: skip
    assert ("gpu0", "gpu.mem_temp") not in rounds[2]
    assert ("gpu0", "gpu.mem_temp") in rounds[3]


@pytest.mark.parametrize(
    ("pids", "counts"),
    [
        ({0: "OWN", 1: "1"}, [1, 0]),
        ({1: "1"}, [0, 0]),  # of somebody else, on a machine whose processes we see
        ({0: "4194303"}, [None, None]),  # of a machine outside of this container
        ({}, [None, None]),
    ],
)
def test_whose_gpu_it_is_is_told_only_where_it_can_be_known(library, read, pids, counts):
    answers = ANSWERS + "".join(f"process {device} {pid}\n" for device, pid in pids.items())
    first = values(read(library(), answers)["rounds"][0])
    assert [first.get((device, "gpu.procs")) for device in ("gpu0", "gpu1")] == counts


@pytest.mark.parametrize(
    ("visible", "devices"),
    [("1", {"gpu1"}), ("GPU-bbbb", {"gpu1"}), ("0,1", {"gpu0", "gpu1"}), ("0,-1,1", {"gpu0"})],
)
def test_only_the_gpus_the_job_may_use_are_read(library, read, visible, devices):
    found = read(library(), CUDA_VISIBLE_DEVICES=visible)
    assert {device for device, _ in values(found["rounds"][0])} == devices


@pytest.mark.parametrize(
    ("answers", "environment", "says"),
    [
        (ANSWERS.replace("count 0 2", "count 0 0"), {}, "no GPU"),
        (ANSWERS, {"CUDA_VISIBLE_DEVICES": ""}, "hides every GPU"),
        ("", {}, "no NVIDIA driver answers"),
    ],
)
def test_without_a_gpu_there_are_no_readings_and_a_reason(library, read, answers, environment, says):
    assert says in read(library(), answers, **environment)["unavailable"]


def test_without_the_library_there_is_a_reason(tmp_path, read):
    assert "no NVIDIA driver answers" in read(tmp_path)["unavailable"]
