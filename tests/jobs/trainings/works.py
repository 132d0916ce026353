"""Steps that compute for some CPU milliseconds and sleep for some: `STEPS CPU_MS SLEEP_MS`."""

import sys
import time

import holter

steps, cpu_ms, sleep_ms = map(int, sys.argv[1:])


def count(milliseconds: float) -> int:
    """Count numbers for so much CPU time of this thread; return the last one."""
    number, until = 0, time.thread_time() + milliseconds / 1000
    while time.thread_time() < until:
        number += 1
    return number


for _ in range(steps):
    with holter.step():
        count(cpu_ms)
        time.sleep(sleep_ms / 1000)
