"""The timeline of a trace beside what its JSON says, computed without holter: lanes, lines, pictures."""

from __future__ import annotations

import gzip
import json
import os
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import pytest

from holter.importers import import_job
from holter.store.trial import Trial
from holter.views.timeline.lanes import Timeline

TRACE = "traces/hta/nccl_parser_config_nccl_data.json.gz"
HOST = {"cpu_op", "python_function", "cuda_runtime", "cuda_driver"}
DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}


def nested(slices):
    """Return how deep slices lie in each other, as a viewer draws them: by begin, the longer first."""
    open_, deepest = [], 0
    for begin, end in sorted(slices, key=lambda s: (s[0], -s[1])):
        open_ = [other for other in open_ if other > begin]
        open_.append(max(end, begin + 1))
        deepest = max(deepest, len(open_))
    return deepest


@pytest.fixture(scope="module")
def told():
    """What the file says: of each stream and thread its slices, in ns of the file's clock."""
    path = Path(os.environ.get("HOLTER_DATA", "../shared/data")) / TRACE
    if not path.is_file():
        pytest.skip(f"{path} is not here; HOLTER_DATA names the folder of real traces")
    slices = defaultdict(list)
    # Exactly as written: a product of floats is a nanosecond off.
    document = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
    for event in document["traceEvents"]:
        category = event.get("cat", "").lower()
        if event["ph"] != "X" or category not in HOST | DEVICE:
            continue
        begin, length = round(event["ts"] * 1000), round(event["dur"] * 1000)
        lane = ("stream", event["args"]["stream"]) if category in DEVICE else ("thread", event["tid"])
        slices[lane].append((begin, begin + length))
    return path, slices


@pytest.fixture(scope="module")
def timeline(told, tmp_path_factory):
    folder, _ = import_job([told[0]], str(tmp_path_factory.mktemp("store")), "job", now_ns=0)
    return Timeline(Trial(folder))


def lanes_of(timeline):
    return {(lane.kind, lane.track): lane for lane in timeline.lanes if lane.kind in ("stream", "thread")}


def offset(timeline, told):
    """Return what the file's clock lies behind that of the epoch."""
    first = min(begin for slices in told[1].values() for begin, _ in slices)
    return min(lane.start for lane in lanes_of(timeline).values()) - first


def test_lanes_hold_the_slices_of_their_tracks(timeline, told):
    lanes, clock = lanes_of(timeline), offset(timeline, told)
    assert set(lanes) == set(told[1])
    for key, slices in told[1].items():
        assert lanes[key].events == len(slices)
        assert lanes[key].start - clock == min(begin for begin, _ in slices)
        assert lanes[key].end - clock == max(end for _, end in slices)
        assert lanes[key].lines == nested(slices)


@pytest.mark.parametrize("zoom", [1, 30, 1000])
def test_pictures_show_what_the_file_has_there(timeline, told, zoom):
    """What is long enough to be seen is drawn as it is; the rest is counted, none lost or drawn twice."""
    lanes, clock = lanes_of(timeline), offset(timeline, told)
    whole = timeline.end_ns - timeline.start_ns
    begin = timeline.start_ns + (whole - whole // zoom) // 2
    end = begin + whole // zoom
    pixel = (end - begin) / 1500
    seen = 0
    for strip in timeline.picture(begin, end, pixels=1500, lanes=lanes.values()).strips:
        slices = [(a + clock, b + clock) for a, b in told[1][strip.lane.kind, strip.lane.track]]
        inside = [(a, b) for a, b in slices if a < end and max(b, a + 1) > begin]
        near = [(a, b) for a, b in slices if a < end + 8 * pixel and b > begin - 8 * pixel]
        drawn = set(zip(strip.time.tolist(), (strip.time + strip.duration).tolist(), strict=True))
        assert {(a, b) for a, b in inside if b - a >= 8 * pixel} <= drawn
        assert len(inside) <= strip.count.sum() <= len(near)
        if zoom == 1:
            assert strip.busy.sum() == sum(b - a for a, b in slices)
            assert len(drawn) <= 4 * 1500 * strip.lane.lines
        seen += len(inside)
    assert seen > 30


def test_near_enough_every_event_is_there_by_itself(timeline, told):
    """Also those far below a microsecond: at a nanosecond a pixel, only what begins together is one block."""
    clock = offset(timeline, told)
    whole = timeline.end_ns - timeline.start_ns
    for key, lane in lanes_of(timeline).items():
        (strip,) = timeline.picture(pixels=whole, lanes=[lane]).strips
        assert strip.count.sum() == lane.events
        drawn = set(zip((strip.time - clock).tolist(), strip.duration.tolist(), strict=True))
        assert drawn == {(a, b - a) for a, b in told[1][key]}
