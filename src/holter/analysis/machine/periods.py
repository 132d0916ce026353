"""Finds what repeats in readings of a program: the period of a series, by autocorrelation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEAST_CYCLES = 6
"""Fewer repetitions may be chance."""
CLEAR = 0.6
"""A period counts from this autocorrelation on."""
_AGAIN = 0.35
"""The least autocorrelation at twice the period, where the deviations of two repetitions add up."""
_DIP = 0.3
"""Between repetitions the autocorrelation must be lower by this much."""
_NEAR = 0.85
"""The first lag within this factor of the largest autocorrelation is the period; later ones are multiples."""
_LEAST_READINGS = 90
_AROUND = 0.2
_LEAST_LAG = 3
"""Shorter periods are not told apart from the intervals of the readings."""


@dataclass(frozen=True, slots=True)
class Period:
    """A series that repeats."""

    seconds: float
    strength: float
    """The autocorrelation at this lag, 0 to 1."""
    cycles: int
    """Repetitions in the series."""


def period(values: NDArray[np.floating[Any]], interval_s: float) -> Period | None:
    """Return the period of readings at equal intervals; None if nothing repeats clearly.

    Repetitions of varying length agree in a coarser series: the finest series with a period counts.
    """
    series = finest = np.asarray(values, dtype=np.float64)
    width = 1
    while len(series) >= _LEAST_READINGS:
        found = _period(_smoothed(series), width * interval_s)
        if found is not None:
            return found if width == 1 else _located(found, finest, interval_s)
        series = series[: len(series) // 2 * 2].reshape(-1, 2).sum(axis=1)
        width *= 2
    return None


def _located(found: Period, series: NDArray[np.float64], interval_s: float) -> Period:
    """Return a period of a coarser series with the length that the finest series gives it."""
    lag = found.seconds / interval_s
    low, high = max(int(lag * (1 - _AROUND)), 1), int(lag * (1 + _AROUND)) + 1
    near = _autocorrelation(_smoothed(series), high)[low:]
    exact = low + int(near.argmax())
    return Period(exact * interval_s, found.strength, len(series) // exact)


def _period(series: NDArray[np.float64], interval_s: float) -> Period | None:
    count = len(series)
    most = count // LEAST_CYCLES
    if most <= _LEAST_LAG or not np.isfinite(series).all() or not series.any():
        return None
    found = _autocorrelation(series, min(2 * most + 2, count - 1))
    lags = np.arange(len(found))
    peaks = (found[1:-1] >= found[:-2]) & (found[1:-1] > found[2:])
    candidates = lags[1:-1][peaks]
    candidates = candidates[(candidates >= _LEAST_LAG) & (candidates <= most)]
    candidates = candidates[found[candidates] >= CLEAR]
    if not len(candidates):
        return None
    strongest = float(found[candidates].max())
    lag = int(candidates[found[candidates] >= _NEAR * strongest][0])
    strength = float(found[lag])
    if found[1:lag].min() > strength - _DIP:
        return None
    around = found[2 * lag - max(lag // 8, 1) : 2 * lag + max(lag // 8, 1) + 1]
    if not len(around) or around.max() < _AGAIN:
        return None
    exact = _refined(found, lag)
    return Period(exact * interval_s, min(strength, 1.0), int(count / exact))


def _smoothed(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Spread each reading over its neighbors, so that events between two readings agree with each other.

    Single huge values, such as the program's start, must not decide.
    """
    if len(values) < 3:
        return values
    limit = np.percentile(values, 99)
    return np.convolve(np.minimum(values, limit) if limit > 0 else values, (0.25, 0.5, 0.25), mode="valid")


def _autocorrelation(series: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """Return the autocorrelation at lags 0 to `most`, each of the parts that overlap."""
    centered = series - series.mean()
    size = 1 << (2 * len(series) - 1).bit_length()
    spectrum = np.fft.rfft(centered, size)
    products = np.fft.irfft(spectrum * np.conj(spectrum), size)[: most + 1]
    squares = np.concatenate([[0.0], np.cumsum(centered**2)])
    lags = np.arange(most + 1)
    norms = np.sqrt((squares[len(series) - lags]) * (squares[-1] - squares[lags]))
    found = np.zeros(most + 1)
    np.divide(products, norms, out=found, where=norms > 0)
    return found


def _refined(found: NDArray[np.float64], lag: int) -> float:
    """Return the lag more exactly than in readings, from its multiples: their peaks divide the rounding."""
    exact = float(lag)
    multiple = 2
    while (expected := round(exact * multiple)) + 1 < len(found):
        low = max(expected - max(lag // 4, 1), 1)
        high = min(expected + max(lag // 4, 1) + 1, len(found))
        at = low + int(found[low:high].argmax())
        if found[at] < CLEAR:
            break
        exact = at / multiple
        multiple += 1
    return exact
