"""Charts of a job by short names, for notebooks: `job.plot.loss()`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holter.job.part import Picture
    from holter.store.trial import Trial

SHORT = {
    "loss": "losses",
    "steps": "step_times",
    "phases": "phases_over_time",
    "parts": "breakdown_over_steps",
    "histogram": "step_histogram",
    "gradients": "gradient_norm",
    "cpu": "cpu_over_time",
    "gpu": "gpu_over_time",
    "loading": "data_loading",
    "kernels": "kernel_time",
}
"""Short name → chart. Every chart also has its own name here."""


class Plots:
    """The charts of one job; `dir(job.plot)` lists them. Each call reads the store."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial

    def loss(self, **options: Any) -> Picture:
        """Draw the losses over the steps."""
        return self._draw("losses", options)

    def steps(self, **options: Any) -> Picture:
        """Draw the duration of each step."""
        return self._draw("step_times", options)

    def phases(self, **options: Any) -> Picture:
        """Draw how the parts of a step change over time."""
        return self._draw("phases_over_time", options)

    def __getattr__(self, name: str) -> Any:
        from holter.views.figures import names

        chart = SHORT.get(name, name)
        if name.startswith("_") or chart not in names():
            raise AttributeError(f"no chart {name!r}; there are: {', '.join(dir(self))}")

        def drawn(**options: Any) -> Picture:
            return self._draw(chart, options)

        drawn.__name__, drawn.__doc__ = name, f"Draw the chart `{chart}`."
        return drawn

    def __dir__(self) -> list[str]:
        from holter.views.figures import names

        return sorted({*SHORT, *names()})

    def __repr__(self) -> str:
        return f"charts: {', '.join(dir(self))}"

    def _draw(self, chart: str, options: dict[str, Any]) -> Picture:
        from holter.job.part import Picture
        from holter.views.figures import draw
        from holter.views.reading import Reading

        return Picture(draw(chart, Reading(self._trial), **options))
