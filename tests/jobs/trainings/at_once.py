"""A loop whose steps run ten in one call, as under a compiled loop over steps."""

import time

import holter

for call in range(40):
    with holter.step(steps=10):
        holter.save_tensor("position", [float(call)])
        time.sleep(0.02)
