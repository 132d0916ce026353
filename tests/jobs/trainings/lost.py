"""A loop of its own, quick to start, whose loss turns NaN at step 40 of 60."""

from __future__ import annotations

import time

import holter

for step in range(60):
    with holter.step():
        time.sleep(0.005)
    holter.log(loss=float("nan") if step >= 40 else 1.0 / (step + 1))
print("done")
