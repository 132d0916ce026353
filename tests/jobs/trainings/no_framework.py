"""A simulation in NumPy without a framework: it computes, gathers and waits in turns, and tells the truth."""

import json
import sys
import time

import numpy as np

seconds = {"collide": 0.0, "gather": 0.0, "wait": 0.0}


def collide(state):
    begin = time.perf_counter()
    while time.perf_counter() - begin < 0.18:
        state = np.tanh(state @ np.eye(len(state))) * 0.5
    seconds["collide"] += time.perf_counter() - begin
    return state


def gather(state):
    begin, total = time.perf_counter(), 0.0
    while time.perf_counter() - begin < 0.07:
        for number in range(2000):
            total += number % 7
    seconds["gather"] += time.perf_counter() - begin
    return total


state = np.random.default_rng(0).standard_normal((100, 100))
begin, steps = time.perf_counter(), 0
while time.perf_counter() - begin < float(sys.argv[1]):
    state = collide(state)
    gather(state)
    waited = time.perf_counter()
    time.sleep(0.12)
    seconds["wait"] += time.perf_counter() - waited
    steps += 1
elapsed = time.perf_counter() - begin
cpu = time.process_time()
print(json.dumps({"steps": steps, "elapsed": elapsed, "cpu": cpu, **seconds}))
