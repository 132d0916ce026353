"""The timeline of a job: pictures that agree with its tables; tiles stored, renewed and done without."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from benchmarks.generated_trace import AUTOGRAD, MAIN, START_NS, STEP_NS, write

from holter.importers import import_job
from holter.store import cache
from holter.store.job import JobFolder, create
from holter.store.trial import Trial
from holter.store.writer import Writer
from holter.views.timeline.details import TimelineEvent, connections, depth, detail, following, search
from holter.views.timeline.lanes import Timeline
from holter.views.timeline.reading import SOURCES
from holter.views.timeline.tree import tree
from holter.views.timeline.values import curves, series, utilization

EVENTS = 60_000
KINDS = {"stream", "thread", "annotations"}


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(str(tmp_path_factory.mktemp("store")), "trace", EVENTS, ranks=2)


@pytest.fixture(scope="module", params=["stored", "in memory"])
def timeline(request, tmp_path_factory):
    name = str(tmp_path_factory.mktemp("store"))
    folder = write(name, "trace", EVENTS, ranks=2)
    opened = Timeline(Trial(folder), in_memory=0 if request.param == "stored" else EVENTS * 2)
    assert bool(tiles_of(folder)) == (request.param == "stored")
    assert not folder.place.files("tiles"), "a view writes into the store"
    return opened


@pytest.fixture(scope="module")
def every(folder):
    """All events as (kind, rank, track) → arrays of begin, duration and name, straight from the tables."""
    trial = Trial(folder)
    found = {}
    for source in SOURCES:
        table = trial.table(source.table, where=source.where)
        name = "kind" if source.table == "memory_operations" else "name"
        for row in table.to_rows() if table.rows and source.table != "spans" else ():
            track = row["stream"] if source.kind == "stream" else row["thread"]
            key = (source.kind, row["rank"], track)
            found.setdefault(key, []).append((row["time"], row["duration"], row[name]))
    return found


def tiles_of(folder):
    place = cache.entry(folder)
    return [] if place is None else [entry.key for entry in place.files("tiles")]


def spans(timeline):
    random = np.random.default_rng(1)
    whole = timeline.end_ns - timeline.start_ns
    yield timeline.start_ns, timeline.end_ns
    for span in np.geomspace(2_000, whole, 14).astype(int).tolist():
        begin = timeline.start_ns + int(random.integers(0, whole - span + 1))
        yield begin, begin + span


def test_lanes_and_the_tree(timeline, every):
    lanes = {(lane.kind, lane.rank, lane.track): lane for lane in timeline.lanes}
    assert set(lanes) == set(every)
    for key, events in every.items():
        assert lanes[key].events == len(events)
        assert lanes[key].start == min(event[0] for event in events)
        assert timeline.lane(lanes[key].id) == lanes[key]
    (host,) = tree(timeline)
    assert [child["name"] for child in host["children"]] == [
        f"rank {rank}: python train.py ({1000 + rank})" for rank in (0, 1)
    ]
    below = host["children"][1]["children"]
    assert [(child["kind"], child["name"]) for child in below] == [
        ("annotations", "main: annotations"),
        ("thread", "main"),
        ("thread", "pt_autograd_0"),
        ("device", "GPU 1"),
        ("counters", "counters"),
    ]
    assert [stream["name"] for stream in below[3]["children"]] == ["stream 7", "stream 20 nccl"]
    with pytest.raises(KeyError, match="no lane"):
        timeline.lane("thread:9")


def test_a_picture_shows_what_is_there(timeline, every):
    levels = set()
    for begin, end in spans(timeline):
        picture = timeline.picture(begin, end, pixels=500)
        pixel = (end - begin) / 500
        for strip in picture.strips:
            levels.add(strip.level)
            lane = strip.lane
            inside = [
                e
                for e in every[lane.kind, lane.rank, lane.track]
                if e[0] < end and e[0] + max(e[1], 1) > begin
            ]
            names = [picture.names[code] for code in strip.name.tolist()]
            shown = list(zip(strip.time.tolist(), strip.duration.tolist(), names, strict=True))
            if strip.level == -1:
                assert sorted(shown) == sorted(inside)
                continue
            # What is at least two blocks long is there by itself; the rest is not lost. A block may hold
            # events from just outside the range, two blocks away at most.
            assert {e for e in inside if e[1] >= 8 * pixel} <= set(shown)
            near = sum(
                e[0] < end + 8 * pixel and e[0] + e[1] > begin - 8 * pixel
                for e in every[lane.kind, lane.rank, lane.track]
            )
            assert len(inside) <= strip.count.sum() <= near
            assert len(shown) <= lane.lines * 500 * 2 * 2 + 10
    assert -1 in levels
    assert len(levels) > 3


def test_depth_is_the_same_at_every_zoom(timeline):
    known = {}
    for begin, end in spans(timeline):
        for strip in timeline.picture(begin, end, pixels=300).strips:
            columns = (strip.time, strip.duration, strip.name, strip.count, strip.depth)
            for time, duration, _, count, line in zip(*(c.tolist() for c in columns), strict=True):
                if count == 1:
                    known.setdefault((strip.lane, time, duration), set()).add(line)
    deep = [lines for lines in known.values() if len(lines) > 1]
    assert not deep
    assert max(line for lines in known.values() for line in lines) >= 2


def test_the_columns_of_a_picture_fit_together(timeline):
    picture = timeline.picture(timeline.start_ns + STEP_NS, timeline.start_ns + 2 * STEP_NS)
    assert picture.start_ns == timeline.start_ns + STEP_NS
    for strip in picture.strips:
        assert (abs(strip.time - picture.start_ns) < 2**53).all(), "scripts hold them exactly"
        columns = (strip.time, strip.duration, strip.depth, strip.name, strip.count, strip.busy)
        assert len({len(column) for column in columns}) == 1
        assert max(strip.name, default=0) < len(picture.names)


def test_pictures_of_some_lanes_and_bad_ranges(timeline):
    chosen = [lane for lane in timeline.lanes if lane.kind == "stream"][1:3]
    assert [strip.lane for strip in timeline.picture(lanes=chosen).strips] == chosen
    assert timeline.picture(lanes=[]).strips == []
    with pytest.raises(ValueError, match="empty"):
        timeline.picture(timeline.end_ns, timeline.start_ns)
    with pytest.raises(ValueError, match="pixels is 0"):
        timeline.picture(pixels=0)
    nothing = timeline.picture(timeline.end_ns + 10**9, timeline.end_ns + 2 * 10**9)
    assert all(len(strip.time) == 0 for strip in nothing.strips)


def test_a_job_without_events(tmp_path):
    from holter.store.job import create

    folder = create(str(tmp_path), "none", command=[], interval_ms=500, rules=[], now_ns=1)
    timeline = Timeline(Trial(folder))
    assert timeline.lanes == []
    assert timeline.picture().strips == []
    assert tree(timeline) == []
    assert search(timeline, "a") == []


def test_what_is_but_an_instant_is_seen_at_the_end_too(tmp_path):
    mark = {"ph": "i", "name": "mark", "pid": 1, "tid": 1}
    (tmp_path / "trace.json").write_text(json.dumps([mark | {"ts": 5}, mark | {"ts": 5}]))
    folder, _ = import_job([tmp_path / "trace.json"], str(tmp_path / "store"), "job", now_ns=0)
    (strip,) = Timeline(Trial(folder)).picture().strips
    assert strip.count.sum() == 2


def test_tiles_are_made_anew_when_more_came_or_writing_was_cut(tmp_path):
    folder = write(str(tmp_path), "trace", 20_000, ranks=1)
    first = Timeline(Trial(folder), in_memory=0)
    files = tiles_of(folder)
    assert files
    assert Timeline(Trial(folder), in_memory=0).lanes == first.lanes
    assert tiles_of(folder) == files, "written again without a reason"
    more = {
        "time": [START_NS],
        "duration": [5],
        "rank": [3],
        "thread": [1],
        "name": ["new"],
        "kind": ["operator"],
    }
    writer = Writer(folder, "n0")
    writer.append("operators", more)
    writer.close()
    second = Timeline(Trial(folder), in_memory=0)
    assert len(second.lanes) == len(first.lanes) + 1
    # Of a writer that was killed the last file is missing: the one with the whole lanes.
    cache.entry(folder).delete(max(tiles_of(folder)))
    assert Timeline(Trial(folder), in_memory=0).lanes == second.lanes


def test_a_job_is_shown_without_a_cache_too(tmp_path, monkeypatch):
    folder = write(str(tmp_path), "trace", 20_000, ranks=1)
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    timeline = Timeline(Trial(folder), in_memory=0)
    shown = sum(strip.count.sum() for strip in timeline.picture().strips)
    assert shown == sum(lane.events for lane in timeline.lanes)


def test_an_event_tells_all_and_what_launched_it(timeline):
    first = search(timeline, "SGEMM_32x")[0]
    assert first.name.startswith("ampere_sgemm_32x")
    kernel = first.first
    row = detail(timeline, kernel)
    assert row["table"] == "kernels"
    assert row["kind"] == "compute"
    (up,) = connections(timeline, kernel)
    assert (up.kind, up.earlier, up.event.name) == ("launch", True, "cudaLaunchKernel")
    assert up.event.time <= kernel.time
    (down,) = connections(timeline, up.event)
    assert (down.earlier, down.event) == (False, kernel)
    with pytest.raises(KeyError, match="no event"):
        detail(timeline, TimelineEvent(kernel.lane, kernel.time + 1, kernel.duration, kernel.name))


def test_the_line_of_an_event_is_that_of_pictures(timeline):
    picture = timeline.picture(timeline.start_ns, timeline.start_ns + STEP_NS, pixels=20_000)
    strip = next(strip for strip in picture.strips if strip.lane.kind == "thread" and strip.lane.lines > 2)
    for line in range(3):
        row = np.flatnonzero((strip.depth == line) & (strip.count == 1))[4]
        name = picture.names[strip.name[row]]
        event = TimelineEvent(strip.lane, int(strip.time[row]), int(strip.duration[row]), name)
        assert depth(timeline, event) == line


def test_forward_leads_to_backward_and_back(timeline):
    forward = next(f for f in search(timeline, "aten::addmm")).first
    assert forward.lane.track == MAIN
    flows = [c for c in connections(timeline, forward) if c.kind == "forward_backward"]
    assert flows
    assert flows[0].event.name == "AddmmBackward0"
    assert flows[0].event.lane.track == AUTOGRAD
    back = connections(timeline, flows[0].event)
    assert forward in [c.event for c in back if c.earlier]


def test_names_are_found_and_followed(timeline, every):
    everything = search(timeline, "")
    assert sum(found.count for found in everything) == sum(map(len, every.values()))
    assert [f.total_ns for f in everything] == sorted((f.total_ns for f in everything), reverse=True)
    assert search(timeline, "no such 'name'") == []
    ranks = {lane.rank for lane in timeline.lanes}
    (h2d,) = search(timeline, "h2d")
    of_each = [search(timeline, "h2d", rank=rank) for rank in sorted(ranks)]
    assert sum(one.count for found in of_each for one in found) == h2d.count
    assert {one.first.lane.rank for found in of_each for one in found} == ranks
    for rank in ranks:
        at = following(timeline, "h2d", timeline.start_ns - 1, rank=rank)
        assert at is not None
        assert at.lane.rank == rank
    assert search(timeline, "h2d", rank=99) == []
    times = sorted({e[0] for events in every.values() for e in events if e[2] == "h2d"})
    at = following(timeline, "h2d", times[2])
    assert at.time == times[3]
    assert following(timeline, "h2d", at.time, backward=True).time == times[2]
    assert following(timeline, "h2d", times[-1]) is None


def test_curves_keep_extremes(timeline):
    listed = series(timeline.reading)
    assert {one.name for one in listed} == {"memory/gpu0", "memory/gpu1"}
    values = timeline.reading.ask(f"SELECT time, value FROM counters WHERE {listed[0].where} ORDER BY time")
    middle = (timeline.start_ns + timeline.end_ns) // 2
    (curve,) = curves(timeline.reading, listed[:1], middle, timeline.end_ns, pixels=10)
    late = values["time"] >= middle
    assert len(curve.time) <= 10
    assert curve.high.max() == values["value"][late & (values["time"] < timeline.end_ns)].max()
    assert curve.before == values["value"][~late][-1]
    with pytest.raises(ValueError, match="empty"):
        curves(timeline.reading, listed, 5, 5)


def test_devices_are_as_busy_as_their_kernels(timeline, every):
    begin, end = timeline.start_ns, timeline.end_ns
    for pixels in (100, 3000):
        shares = utilization(timeline.picture(begin, end, pixels=pixels), pixels=pixels)
        assert set(shares) == {("n0", 0, 0), ("n0", 1, 1)}
        for (_, rank, _), share in shares.items():
            streams = [events for (kind, r, _), events in every.items() if kind == "stream" and r == rank]
            covered = np.zeros((end - begin) // 1000 + 1, bool)  # microseconds in which any stream ran
            for time, duration, _ in (event for events in streams for event in events):
                covered[(time - begin) // 1000 : (time + duration - begin) // 1000] = True
            assert share.mean() == pytest.approx(100 * covered.mean(), abs=3)
            assert 0 <= share.min() <= share.max() <= 100.000001


def test_several_who_open_a_job_at_once_compute_its_tiles_once(tmp_path):
    folder = write(str(tmp_path), "trace", 20_000, ranks=1)
    with ThreadPoolExecutor(3) as pool:
        opened = list(pool.map(lambda _: Timeline(Trial(folder), in_memory=0), range(3)))
    assert opened[0].lanes == opened[1].lanes == opened[2].lanes
    kept = Trial(JobFolder(cache.entry(folder), "trace"))
    counted = kept.sql("SELECT count(*) AS n FROM tiles WHERE level < 0")["n"][0]
    assert counted == len(opened[0].lanes)


def test_a_file_that_is_damaged_inside_costs_its_own_series_only(tmp_path):
    folder = create(str(tmp_path), "job", command=[], interval_ms=500, rules=[], now_ns=START_NS)
    times = START_NS + np.arange(2000) * 10**6
    chance = np.random.default_rng(1)
    zeros = np.zeros(2000, np.int8)
    for node in ("n0", "n1"):
        writer = Writer(folder, node)
        texts = {"device": (zeros, [""]), "metric": (zeros, ["cpu.util"])}
        writer.append("samples", {"time": times, **texts, "value": chance.random(2000)})
        assert writer.close()
    sound = Timeline(Trial(folder)).reading
    assert {one.node for one in series(sound)} == {"n0", "n1"}
    (path,) = tmp_path.rglob("samples/node=n1/*.parquet")
    content = bytearray(path.read_bytes())
    content[4:-2000] = b"\xff" * (len(content) - 2004)  # its footer, with the list of columns, stays
    path.write_bytes(content)
    opened = Timeline(Trial(folder)).reading
    assert {one.node for one in series(opened)} == {"n0"}
    assert [one["file"] for one in opened.trial.skipped]
