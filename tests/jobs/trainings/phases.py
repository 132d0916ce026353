"""A loop without a framework whose steps and phases are marked; it reports the times of its own clock."""

import json
import time
from collections import Counter

import holter

truth = Counter()


def spend(part, seconds):
    begin = time.perf_counter()
    until = time.process_time() + seconds
    while time.process_time() < until:
        sum(range(200))
    truth[part] += time.perf_counter() - begin


def batches():
    for number in range(60):
        spend("data_loading", 0.004)
        yield number


@holter.phase("simulate")
def simulate():
    spend("simulate", 0.012)


begin = time.perf_counter()
for number in holter.steps(batches()):
    simulate()
    with holter.phase("collide"):
        spend("collide", 0.006)
    if number % 2:
        with holter.phase("checkpoint"):
            spend("checkpoint", 0.004)
    holter.log(energy=number)
print(json.dumps({"elapsed": time.perf_counter() - begin, **truth}))
