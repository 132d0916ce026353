"""A GPU that is not there: CUDA's events over a clock, and layers that launch work of known length.

A recorded script runs it; `measure` lets the recorder time parts with these events.
"""

import time

import torch
from torch import nn


class Event:
    ends = 0.0  # when the work that was launched so far is done, s
    launched_ms = 0.0
    capturing, times, made, faults = False, 0, 0, 0

    def __init__(self, enable_timing):
        Event.made += 1

    def record(self):
        if Event.faults:
            Event.times += 4
            raise RuntimeError("CUDA error: an event fails")
        assert not Event.capturing, "no event is recorded while a graph is captured"
        self.at = max(Event.ends, time.perf_counter())

    def query(self):
        return time.perf_counter() >= self.at

    def elapsed_time(self, other):
        assert all((self.query(), other.query())), "both are complete"
        Event.times += 1
        return 1e3 * (other.at - self.at)


def launch(ms):
    Event.launched_ms += ms
    Event.ends = max(Event.ends, time.perf_counter()) + ms / 1e3


def synchronize():
    time.sleep(max(0.0, Event.ends - time.perf_counter()))


class Cuda:
    Event, asked = Event, 0

    def is_initialized(self):
        Cuda.asked += 1
        return True

    def is_current_stream_capturing(self):
        return Event.capturing

    def current_device(self):
        return 0


class OnGpu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        launch(4)
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        launch(8)
        return gradient * 1


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 1)

    def forward(self, x):
        return OnGpu.apply(self.linear(x))


class Sgd(torch.optim.Optimizer):
    def step(self, closure=None):
        launch(2)


def measure(device):
    from holter.recorder import session
    from holter.recorder.frameworks.pytorch.stepping import gpu_times

    gpu_times.PAUSE_NS = 0
    adapter = session.current.torch_parts[0]
    times = gpu_times.GpuTimer(adapter, Cuda())
    session.current.sampler.on_wake = lambda part: times.woke()
    adapter.note_device(device)


def train(seconds, ahead=False, device="cuda", measured=10**9):
    # Ends when so many steps are measured, of four times each.
    torch.manual_seed(0)
    model = Layer()
    optimizer = Sgd(model.parameters(), {"lr": 0.01})
    began, steps = time.perf_counter(), 0
    while time.perf_counter() < began + seconds and Event.times < 4 * measured:
        optimizer.zero_grad()
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
        steps += 1
        if steps == 1:
            measure(device)
        if not ahead or Event.ends > time.perf_counter() + 0.1:
            synchronize()
    return steps
