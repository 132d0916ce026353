"""Compute what a large job writes, requests and costs: bytes a second, objects, requests, dollars a day.

Periods come from holter's source, sizes of rows from `store_size.py`, prices from the options.

    python benchmarks/scale_model.py
    python benchmarks/scale_model.py --nodes 1 125 1250 10000 --gpus 8 --step-s 5
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

from holter.agent.drain.periods import periods
from holter.store.index import PACK_AT
from holter.store.urls import place
from holter.store.writer import LAST_AGE_S, MAX_ROWS

DAY_S = 86_400
ORDERS_S = 1.0
"""In an object store the agent of a small job reads its orders about once a second."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A training that runs all day."""

    nodes: int
    gpus: int
    step_s: float
    spans: float
    """Per rank and step."""
    node_series: int
    gpu_series: int
    interval_s: float
    span_bytes: float
    sample_bytes: float
    put: float
    """Price of 1,000 requests that write or list."""
    get: float
    """Price of 1,000 requests that read."""
    keep: float
    """Price of a GB for a month."""


def model(one: Cluster) -> dict[str, float]:
    """Return the numbers of a day by name."""
    span_rows = one.gpus * one.spans / one.step_s
    sample_rows = (one.node_series + one.gpus * one.gpu_series) / one.interval_s
    node_bytes = span_rows * one.span_bytes + sample_rows * one.sample_bytes
    # A file is written when its oldest row is a minute old, or it is full; the last term is table scalars.
    files = sum(max(1 / LAST_AGE_S, rows / MAX_ROWS) for rows in (span_rows, sample_rows)) + 1 / LAST_AGE_S
    rhythm = periods(place("s3://bucket"), one.nodes)
    puts = files + 1 / rhythm.heartbeat_s
    gets = 1 / max(rhythm.orders_s, ORDERS_S)
    dollars = one.nodes * DAY_S * (puts * one.put + gets * one.get) / 1000
    stored = one.nodes * node_bytes * DAY_S / 1e9
    return {
        "bytes per rank and step": one.spans * one.span_bytes,
        "kB/s of a node": node_bytes / 1e3,
        "MB/s of all nodes": one.nodes * node_bytes / 1e6,
        "GB a day": stored,
        "files a day": one.nodes * files * DAY_S,
        "PUT a second": one.nodes * puts,
        "GET a second": one.nodes * gets,
        "dollars a day, requests": dollars,
        "dollars a month, each day kept": stored * one.keep,
        "LIST to list a day's files": math.ceil(one.nodes * files * DAY_S / 1000),
    }


def main() -> None:
    """Print the numbers for each number of nodes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 125, 1250, 10_000])
    parser.add_argument("--gpus", type=int, default=10, help="of a node; one rank each")
    parser.add_argument("--step-s", type=float, default=5.0)
    parser.add_argument("--spans", type=float, default=7.0, help="per rank and step")
    parser.add_argument("--node-series", type=int, default=40, help="without single cores")
    parser.add_argument("--gpu-series", type=int, default=13)
    parser.add_argument("--interval-s", type=float, default=5.0)
    parser.add_argument("--span-bytes", type=float, default=8.0)
    parser.add_argument("--sample-bytes", type=float, default=2.0)
    parser.add_argument("--put", type=float, default=0.005)
    parser.add_argument("--get", type=float, default=0.0004)
    parser.add_argument("--keep", type=float, default=0.023)
    given = vars(parser.parse_args())
    counts = given.pop("nodes")
    columns = [model(Cluster(nodes=nodes, **given)) for nodes in counts]
    print("| | " + " | ".join(f"{count:,} nodes" for count in counts) + " |")
    print("|---" + "|---:" * len(counts) + "|")
    for name in columns[0]:
        print(f"| {name} | " + " | ".join(_number(column[name]) for column in columns) + " |")
    packed = 10_000 // PACK_AT
    print(f"\nA list of 10,000 ended jobs reads {packed} packed files and fewer than {PACK_AT} single ones.")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    main()
