"""A search that is no PyTorch training, marked by hand: what a step is, and what happens in it."""

from __future__ import annotations

import random

import holter


def candidates(best: list[float], count: int) -> list[list[float]]:
    """Make some neighbors of the best point so far."""
    return [[value + random.gauss(0, 0.1) for value in best] for _ in range(count)]


def score(point: list[float]) -> float:
    """Say how far a point is from the target; 0 is best."""
    return sum((value - target) ** 2 for target, value in enumerate(point))


@holter.annotate("choose")
def closest(points: list[list[float]]) -> list[float]:
    """Return the best of some points."""
    return min(points, key=score)


def main() -> None:
    """Search for 200 steps."""
    random.seed(0)
    best = [0.0] * 8
    for _ in range(200):
        with holter.step():
            with holter.annotate("propose"):
                points = candidates(best, 300)
            best = closest([best, *points])
        holter.log(distance=score(best))
    print(f"distance {score(best):.4f}")


if __name__ == "__main__":
    main()
