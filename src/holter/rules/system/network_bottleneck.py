"""NetworkBottleneck: the network slows down training."""

from __future__ import annotations

import numpy as np

from holter.rules import Issues, Lookback, Rule, Window, parameter, rule_class
from holter.rules.engine.levels import grade

_WINDOW_S = 120.0
_MIN_STEPS = 20


@rule_class
class NetworkBottleneck(Rule):
    """Training waits for a full link, segments are lost, or the link of a node is slower than others."""

    reads = (
        "samples/net.rx",
        "samples/net.tx",
        "samples/net.link_speed",
        "samples/net.segments",
        "samples/net.retrans",
        "steps",
    )
    formula = (
        "95th percentile of traffic >= full_pct of the link and communication >= exposed_pct of the steps; "
        "TCP retransmissions / segments sent >= info, warning, or critical; or a link slower than most "
        "others"
    )
    advice = "Check the cable and the port, the interface that NCCL chose, rail alignment, and message sizes."
    packs = ("distributed",)
    every_s = 30.0
    consecutive = 2
    lookback = Lookback(seconds=_WINDOW_S, steps=200)

    full_pct: float = parameter(85.0, above=0, high=100, unit="%")
    """A link with more traffic than this is full."""
    exposed_pct: float = parameter(10.0, low=0, high=100, unit="%")
    """Share of the steps that communication must take."""
    info: float | None = parameter(0.1, above=0, high=100, unit="%")
    """Share of retransmitted segments from which the rule reports a note."""
    warning: float | None = parameter(1.0, above=0, high=100, unit="%")
    """Share of retransmitted segments that is a warning."""
    critical: float | None = parameter(5.0, above=0, high=100, unit="%")
    """Share of retransmitted segments that is critical."""
    min_segments: float = parameter(20_000.0, low=1, unit="segments")
    """Retransmissions are not judged below this number of segments in two minutes."""

    def evaluate(self, window: Window) -> Issues:
        """Judge each node by traffic, losses, and the speed of its link."""
        yield from self._losses(window)
        yield from self._full(window)
        yield from self._slower(window)
        if not window.points:
            window.insufficient("no_input", "neither the speed of a link nor enough TCP segments were read")

    def _losses(self, window: Window) -> Issues:
        sent, again = window.series("net.segments"), window.series("net.retrans")
        for place in sorted(sent.keys() & again.keys()):
            series = sent[place]
            seconds = min(_WINDOW_S, (int(series.time[-1]) - int(series.time[0])) / 1e9)
            segments = float(series.value.mean()) * seconds
            if segments < self.min_segments:
                continue
            window.judged(len(series.value))
            share = 100.0 * float(again[place].value.mean()) / float(series.value.mean())
            severity = grade(share, info=self.info, warning=self.warning, critical=self.critical)
            if severity is not None:
                yield self.issue(
                    f"{share:.2g} % of TCP segments were retransmitted",
                    code="lost_segments",
                    node=place[0],
                    **window.span,
                    severity=severity,
                    evidence={"retransmitted_pct": share, "segments": round(segments)},
                )

    def _full(self, window: Window) -> Issues:
        speeds = window.series("net.link_speed")
        steps = window.steady
        for place, speed in speeds.items():
            here = steps.where(steps["node"] == place[0])
            traffic = [window.series(metric).get(place) for metric in ("net.rx", "net.tx")]
            p95 = [float(np.quantile(s.value, 0.95)) for s in traffic if s is not None]
            if here.rows < _MIN_STEPS or not p95:
                continue
            window.judged(here.rows)
            use = 100.0 * max(p95) / float(speed.value[-1])
            exposed = 100.0 * float(here["communication"].sum()) / float(here["duration"].sum())
            if use >= self.full_pct and exposed >= self.exposed_pct:
                yield self.issue(
                    f"the link is {use:.0f} % full, and communication takes {exposed:.0f} % of the steps",
                    code="full",
                    node=place[0],
                    **window.span,
                    evidence={"link_used_pct": use, "communication_pct": exposed},
                )

    def _slower(self, window: Window) -> Issues:
        speeds = {place[0]: float(s.value[-1]) for place, s in window.series("net.link_speed").items()}
        # With two nodes it is unknown which one is wrong.
        if len(speeds) < 3:
            return
        window.judged(len(speeds))
        usual = float(np.median(list(speeds.values())))
        for node, speed in sorted(speeds.items()):
            if speed < 0.9 * usual:
                yield self.issue(
                    f"the link of {node} runs at {speed * 8e-9:g} Gbit/s, most others at {usual * 8e-9:g}",
                    code="slow_link",
                    node=node,
                    **window.span,
                    severity="critical",
                    evidence={"bytes_per_s": speed, "usual_bytes_per_s": usual},
                )
