"""A `profiler-output` folder as SageMaker writes it, whose every number is known."""

from __future__ import annotations

import cProfile
import json
from pathlib import Path

BEGIN_S = 1_700_000_040
"""A full minute."""
BEGIN = BEGIN_S * 1_000_000
SECOND = 1_000_000
HOUR = "2023111422"
STEPS = 10
WORKER = "algo-1-111"


def readings(node: str, gpu: list[float]) -> list[dict]:
    """Two readings a second for a minute, with the GPU as told; the first after a quarter of a second."""
    rows = []
    for at, busy in enumerate(gpu):
        time = BEGIN_S + 0.25 + at / 2
        told = [
            ("cpu", "cpu0", "CPUUtilization", 95.0),
            ("cpu", "cpu1", "CPUUtilization", 15.0),
            ("cpu", "cpu0", "I/OWaitPercentage", 2.0),
            ("cpu", "cpu1", "I/OWaitPercentage", 4.0),
            ("gpu", "gpu0", "GPUUtilization", busy),
            ("gpu", "gpu0", "GPUMemoryUtilization", 40.0),
            ("memory", "MemoryUsedPercent", "", 50.0),
            ("i/o", "IOPS", "", 10.0),
            ("network", "ReceiveBytesPerSecond", "Algorithm", 100.0),
        ]
        rows += [
            {
                "Type": t,
                "Name": n,
                "Dimension": d,
                "Value": v,
                "NodeId": node,
                "Timestamp": time + i / 1000,
            }
            for i, (t, n, d, v) in enumerate(told)
        ]
    return rows


def events() -> list[tuple[str, str, float, float, dict]]:
    """Phase, name, begin and length in seconds since BEGIN, and what it carries."""
    found = [("DataLoaderIterInitialize", "_MultiProcessingDataLoaderIter.__init__", 8.0, 0.5, LOADER)]
    found.append(("DataLoaderWorker", "DataLoaderWorker", 8.5, 30.0, {"worker_id": 0}))
    for step in range(STEPS):
        begin = 10.0 + 2 * step
        wait = 1.5 if step == 5 else 0.3
        fetched = {"step_num": str(step), **LOADER}
        found += [
            ("DataLoaderIter", "_MultiProcessingDataLoaderIter::GetNext", begin - wait, wait, fetched),
            ("Step:ModeKeys.TRAIN", "Step:ModeKeys.TRAIN", begin, 1.5, {"step_num": step}),
            ("Forward", "Net", begin, 0.5, {"step_num": step}),
            ("Backward(post-forward)", "Net", begin + 0.5, 0.75, {"step_num": step}),
            # Without a step of its own: the one around it is its step.
            ("cpu_functions", "aten::conv2d", begin + 0.1, 0.2, {"tid": "7", "layer_name": "conv1"}),
        ]
    for step in range(2):
        mode = "Step:ModeKeys.EVAL"
        found.append((mode, mode, 32.0 + 2 * step, 1.0, {"step_num": step}))
    return found


LOADER = {"num_workers": 4, "pin_memory": False}


def write(root: Path) -> Path:
    """Write the folder, and return it."""
    for node, gpu in (("algo-1", [5.0] * 40 + [95.0] * 80), ("algo-2", [50.0] * 120)):
        path = root / f"system/incremental/{HOUR}/{BEGIN_S}.{node}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(row) for row in readings(node, gpu)]
        path.write_text("\n".join(lines) + '\n{"Type": "cpu", "Na')
    (root / f"system/incremental/{HOUR}/{BEGIN_S}.lgo-1.json").write_text("not a file of readings")
    told = events()
    numbers = {phase: n for n, phase in enumerate(dict.fromkeys(e[0] for e in told), 1)}
    lines = [
        {"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros": BEGIN}}
    ]
    lines += [
        {"name": "process_name", "ph": "M", "pid": n, "args": {"name": phase}} for phase, n in numbers.items()
    ]
    lines += [
        {"name": name, "ph": "X", "pid": numbers[phase], "ts": us(begin), "dur": us(length), "args": args}
        for phase, name, begin, length, args in told
    ]
    last = BEGIN + us(max(begin + length for _, _, begin, length, _ in told))
    path = root / f"framework/pevents/{HOUR}/{last}_111-algo-1_pythontimeline.json"
    path.parent.mkdir(parents=True)
    path.write_text("[\n" + ",\n".join(map(json.dumps, lines)) + "\n]\n")
    return root


def us(seconds: float) -> int:
    return round(seconds * SECOND)


SEGMENTS = (
    ("prestepzero-*-start", "train-0-stepstart", "before_all"),
    ("train-0-stepstart", "train-0-forwardpassend", "forward_0"),
    ("train-0-forwardpassend", "train-1-stepstart", "backward_0"),
    ("train-1-stepstart", "train-1-forwardpassend", "forward_1"),
    ("train-1-forwardpassend", "eval-0-stepstart", "train_to_eval"),
    ("eval-0-stepstart", "eval-0-forwardpassend", "evaluate"),
    ("eval-0-forwardpassend", "posthookclose-*-end", "after_all"),
)


def write_python(root: Path) -> Path:
    """Write what cProfile and pyinstrument saw of seven segments, a function each; return the folder."""
    for number, (start, end, name) in enumerate(SEGMENTS):
        segment = f"{start}-{BEGIN + number * SECOND}_{end}-{BEGIN + (number + 1) * SECOND}"
        scope: dict = {}
        exec(f"def {name}():\n    return 1", scope)
        profile = cProfile.Profile()
        profile.runcall(scope[name])
        folder = root / "framework/pytorch/cprofile/algo-1-111" / segment
        folder.mkdir(parents=True)
        profile.dump_stats(folder / "python_stats")
        folder = root / "framework/pytorch/pyinstrument/algo-1-111" / segment
        folder.mkdir(parents=True)
        (folder / "python_stats.json").write_text(json.dumps({"root_frame": {"function": name}}))
        (folder / "python_stats.html").write_text(f"<p>{name}</p>")
    return root
