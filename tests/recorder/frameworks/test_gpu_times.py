"""Parts of a step are timed on the GPU; a stand-in for CUDA's events computes beside the host, as a GPU."""

from __future__ import annotations

import json
from pathlib import Path

from holter.schema.phases import Phase

GPU = Path(__file__).with_name("stand_in_gpu.py").read_text()


def measured(recording):
    """Return the sums of all lines: steps, and ms of each part on the GPU and on the host, a step."""
    lines = recording.trainer.facts.get("gpu_time", [])
    steps = sum(line["steps"] for line in lines)
    parts = {part for line in lines for part in line["parts"]}
    return steps, {
        part: tuple(
            sum(line["parts"][part][side] for line in lines) / steps / 1e6 for side in ("gpu", "host")
        )
        for part in parts
    }


def test_parts_have_their_times_on_the_gpu(record):
    recording = record(GPU + "print(train(60, measured=3), Event.made)")
    steps, parts = measured(recording)
    taken, made = map(int, recording.stdout.split())
    assert 3 <= steps < taken, "a few steps, not each"
    assert made < 20, "events are used again"
    for part, gpu_ms in {"forward": 4, "backward": 8, "optimizer": 2, "step": 14}.items():
        assert gpu_ms - 0.5 < parts[part][0], part
    assert parts["forward"][1] < parts["forward"][0], "the host only launches the forward pass"
    assert parts["backward"][1] < parts["backward"][0]
    assert json.dumps(recording.trainer.facts["gpu_time"][0])


def test_nothing_waits_for_a_gpu_that_is_far_behind(record):
    recording = record(GPU + "print(train(60, ahead=True, measured=1))")
    steps, parts = measured(recording)
    assert steps >= 1
    assert parts["step"][0] > parts["step"][1], "the host runs ahead"


def test_no_event_is_recorded_while_a_graph_is_captured(record):
    recording = record(GPU + "Event.capturing = True\ntrain(0.8)\nprint(Event.made)")
    assert recording.stdout == "0\n"
    assert measured(recording)[0] == 0


def test_faults_of_events_switch_it_off_and_leave_the_training_alone(record):
    recording = record(GPU + "Event.faults = 1\nprint(train(60, measured=10) > 10)", quiet=False)
    assert recording.stdout == "True\n"
    places = [fault["where"] for fault in recording.trainer.facts["fault"]]
    assert set(places) == {"pytorch.gpu_time"}
    assert "pytorch.gpu_time is no longer recorded after 10 faults" in recording.stderr


def test_a_training_on_the_cpu_is_not_measured(record):
    recording = record(GPU + 'train(0.6, device="cpu")\nprint(Cuda.asked, Event.made)')
    assert recording.stdout == "0 0\n"
    assert "gpu_time" not in recording.trainer.facts


def test_it_can_be_switched_off(record, monkeypatch):
    monkeypatch.setenv("HOLTER_GPU_TIME", "0")
    recording = record(GPU + "train(0.6)\nprint(Cuda.asked, Event.made)")
    assert recording.stdout == "0 0\n"


def test_cuda_is_never_initialized_by_it(record):
    recording = record("""
        import time
        from holter.recorder import session
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        began = time.perf_counter()
        while time.perf_counter() < began + 0.6:
            optimizer.zero_grad()
            model(torch.ones(4, 8)).sum().backward()
            optimizer.step()
            session.current.torch_parts[0].note_device("cuda")
        print(torch.cuda.is_initialized())
    """)
    assert recording.stdout == "False\n"
    assert "gpu_time" not in recording.trainer.facts


def test_listeners_come_and_go_in_any_order(record):
    recording = record("""
        from holter.recorder import session
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        heard = {"a": [], "b": []}
        undo = {}
        def listen(name):
            call = lambda part, begins, mode: heard[name].append((step, part, begins))
            undo[name] = session.current.torch_parts[0].watch_phases(call)
        for step in range(6):
            if step == 1: listen("a")
            if step == 2: listen("b")
            if step == 3: undo["a"]()
            if step == 4: undo["b"](), undo["b"]()
            optimizer.zero_grad()
            model(torch.ones(4, 8)).sum().backward()
            optimizer.step()
        print(*({(step, part) for step, part, begins in heard[name]} == {
            (step, part) for step in steps for part in ("forward", "backward", "optimizer")
        } for name, steps in (("a", (1, 2)), ("b", (2, 3)))))
    """)
    assert recording.stdout == "True True\n"
    assert recording.trainer.per_step(Phase.FORWARD) == [1] * 6
