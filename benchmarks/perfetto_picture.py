"""One trace in Perfetto's trace processor and in holter's timeline, slice by slice and pixel by pixel.

python benchmarks/perfetto_picture.py TRACE.json[.gz] --trace-processor PATH

PATH is a `trace_processor` or `trace_processor_shell`: it is asked `PATH -q FILE.sql TRACE`, and answers CSV.
Before v29 it reads nothing of a trace whose header has keys that it does not know, as PyTorch's have.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holter.importers import import_job
from holter.report.exports import ExportSelection, formats
from holter.store.trial import Trial
from holter.views.timeline.details import TimelineEvent, connections
from holter.views.timeline.lanes import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holter.views.timeline.reading import Lane

    Rows = list[dict[str, str]]
    Tracks = dict[str, int]

SLICES = """SELECT id, track_id, ts, dur, ifnull(parent_id, -1) AS parent, hex(ifnull(name, '')) AS name
FROM slice"""
TRACKS = """SELECT thread_track.id, tid, hex(ifnull(thread.name, '')) AS name
FROM thread_track JOIN thread USING (utid)"""
FLOWS = "SELECT slice_out, slice_in FROM flow"
SUMS = (
    "SELECT 'slices' AS what, count(*) AS n FROM slice UNION ALL SELECT 'arrows', count(*) FROM flow "
    "UNION ALL SELECT 'values of counters', count(*) FROM counter UNION ALL SELECT 'error ' || name, value "
    "FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"
)
PICTURE = """SELECT track_id, ts, ts + max(dur) AS until
FROM slice WHERE dur > 0 GROUP BY track_id, depth, (ts + {bucket} / 2) / {bucket}"""
"""What Perfetto's page asks for to draw threads: of each line and bucket the longest slice."""
PIXELS = 1600
ARROWS_LOOKED_UP = 100


def ask(program: Path, trace: Path, query: str) -> Rows:
    """Return the rows of a query; names have to be asked for in hexadecimal, for text is not escaped."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(query + "\n")
        file.flush()
        ran = subprocess.run([program, "-q", file.name, trace], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"{program} fails on {trace}: {ran.stderr[-1000:]}")
    rows = list(csv.DictReader(ran.stdout.splitlines()))
    for row in rows:
        if "name" in row:
            row["name"] = bytes.fromhex(row["name"]).decode("utf-8", "replace")
    return rows


@dataclass(slots=True)
class Ours:
    """An event of holter's timeline, times in ns of the file's clock."""

    lane: Lane
    begin: int
    duration: int
    line: int
    name: str


@dataclass(slots=True)
class Slice:
    """A slice as Perfetto has it, and the event that is the same."""

    track: int
    begin: int
    duration: int
    parent: int
    name: str
    same: Ours | None = None


def events_of(timeline: Timeline) -> list[Ours]:
    """Return every event of a timeline, from its pictures at a nanosecond a pixel."""
    found: list[Ours] = []
    for lane in timeline.lanes:
        if lane.kind == "phases":  # the steps, which holter makes of annotations
            continue
        picture = timeline.picture(lane.start, lane.end + 1, pixels=lane.end + 1 - lane.start, lanes=[lane])
        (strip,) = picture.strips
        names = [picture.names[code] for code in strip.name.tolist()]
        columns = (strip.time.tolist(), strip.duration.tolist(), strip.depth.tolist(), names)
        found += [Ours(lane, *row) for row in zip(*columns, strict=True)]
        if len(strip.time) != lane.events:
            print(f"{lane.id}: {lane.events - len(strip.time)} events begin in one nanosecond with others")
    return found


def put_on_one_clock(ours: Iterable[Ours], slices: Iterable[Slice]) -> int:
    """Take off our begins what most of those of a name's first event differ by; returns it."""
    mine = {e.name: e.begin for e in sorted(ours, key=lambda e: -e.begin)}
    theirs = {s.name: s.begin for s in sorted(slices, key=lambda s: -s.begin)}
    clock = Counter(mine[name] - theirs[name] for name in mine.keys() & theirs.keys())
    ((offset, _),) = clock.most_common(1)
    for event in ours:
        event.begin -= offset
    return offset


def match(ours: list[Ours], slices: Iterable[Slice]) -> Tracks:
    """Say in each slice which event it is; returns the track that each lane lies on, the most of it.

    The same are those of a track whose begins and durations differ by a nanosecond at most; first those of
    one name, then others, as a copy's, which holter names by its kind.
    """
    votes: dict[str, Counter[int]] = defaultdict(Counter)
    placed: dict[int, list[Slice]] = defaultdict(list)
    for slice_ in slices:
        placed[slice_.begin].append(slice_)
    for event in ours:
        near = [s for s in placed.get(event.begin, ()) if s.duration == event.duration]
        votes[event.lane.id].update({s.track: 1 + 10 * (s.name == event.name) for s in near})
    tracks = {lane: found.most_common(1)[0][0] for lane, found in votes.items() if found}
    left = [event for event in ours if event.lane.id in tracks]
    for slack, any_name in ((0, False), (1, False), (0, True), (1, True)):
        missing = []
        for event in left:
            near = [s for d in range(-slack, slack + 1) for s in placed.get(event.begin + d, ())]
            near = [s for s in near if s.same is None and s.track == tracks[event.lane.id]]
            near = [s for s in near if abs(s.duration - event.duration) <= slack]
            fits = [s for s in near if any_name or s.name == event.name]
            if fits:
                fits[0].same = event
            else:
                missing.append(event)
        left = missing
    return tracks


def lines(slices: dict[int, Slice]) -> dict[int, int]:
    """Return for each slice that has an event how many of those around it lie on the same lane."""
    found: Counter[int] = Counter()
    for number, slice_ in slices.items():
        around = slice_.parent
        while slice_.same and around != -1:
            other = slices[around].same
            found[number] += bool(other and other.lane is slice_.same.lane)
            around = slices[around].parent
    return found


def reasons(slices: dict[int, Slice]) -> dict[int, str]:
    """Return for each slice why its line may differ: what does not nest between two moments of rest."""
    together = Counter((s.track, s.begin) for s in slices.values())
    empty = {(s.track, s.begin) for s in slices.values() if s.duration == 0}
    stretch: dict[int, int] = {}
    ends: dict[int, tuple[int, int]] = {}
    why: dict[int, str] = {}
    for number, s in sorted(slices.items(), key=lambda item: (item[1].begin, item[0])):
        last, until = ends.get(s.track, (number, s.begin))
        stretch[number] = last if until > s.begin else number
        ends[s.track] = (stretch[number], max(until, s.begin + s.duration))
        around = slices.get(s.parent, s)
        over = s.begin + s.duration - around.begin - around.duration
        if over > 0 and s.begin == around.begin:
            why[stretch[number]] = "slices begin together, the shorter first in the file"
        elif over > 2:
            why[stretch[number]] = "slices overlap without nesting"
        elif over > 0:
            why.setdefault(stretch[number], "slices overlap by what Perfetto rounds")
    unlike = {number: why.get(of, "no reason found") for number, of in stretch.items()}
    for number, s in slices.items():
        if (s.track, s.begin) in empty and together[s.track, s.begin] > 1:
            unlike[number] = "slices without length begin with others: for holter they last 1 ns"
    return unlike


def compare_slices(slices: dict[int, Slice], ours: list[Ours], named: dict[int, str]) -> Tracks:
    """Print what is the same and what differs, track by track; returns the tracks of lanes."""
    tracks = match(ours, slices.values())
    deep, why = lines(slices), reasons(slices)
    differ: Counter[str] = Counter()
    print("| Perfetto's track | its slices | of length | holter's lanes | events | the same | "
          "1 ns off | named otherwise | same line |\n|---|---|---|---|---|---|---|---|---|")  # fmt: skip
    for track in sorted({s.track for s in slices.values()}):
        mine = {n: s for n, s in slices.items() if s.track == track}
        lanes = [lane for lane, at in tracks.items() if at == track]
        events = [event for event in ours if event.lane.id in lanes]
        same = {n: s for n, s in mine.items() if s.same is not None}
        exact = sum((s.begin, s.duration) == (s.same.begin, s.same.duration) for s in same.values() if s.same)
        moved = [n for n, s in same.items() if s.same and s.same.line != deep[n]]
        differ.update(why[n] for n in moved)
        other = sum(s.name != s.same.name for s in same.values() if s.same)
        long = sum(s.duration > 0 for s in mine.values())
        counts = (len(events), len(same), len(same) - exact, other, len(same) - len(moved))
        print(f"| {named.get(track, f'track {track}')} | {len(mine):,} | {long:,} | {' '.join(lanes)} |",
              " | ".join(f"{n:,}" for n in counts), "|")  # fmt: skip
    matched = {id(s.same) for s in slices.values() if s.same}
    for lane, number in Counter(e.lane.id for e in ours if id(e) not in matched).items():
        print(f"only holter has {number:,} events of {lane}")
    left = [s for s in slices.values() if s.same is None]
    kinds = Counter(s.name[:60] if s.duration else "without length (instants)" for s in left)
    for what, number in kinds.most_common(6):
        print(f"only Perfetto has {number:,} slices {what}")
    for reason, number in differ.items():
        print(f"on another line: {number:,}: {reason}")
    return tracks


def columns(begin: int, end: int, bucket: int) -> range:
    """Return the columns of pixels that a stretch of time touches."""
    return range(begin // bucket, (max(end, begin + 1) - 1) // bucket + 1)


def compare_pixels(
    asked: Callable[[str], Rows], slices: Iterable[Slice], timeline: Timeline, clock: int, tracks: Tracks
) -> None:
    """Print in how many columns of pixels each draws anything, of all tracks that both have."""
    # Even, as Perfetto's page has it.
    bucket = max(round((timeline.end_ns - timeline.start_ns) / PIXELS / 2) * 2, 2)
    theirs: dict[int, set[int]] = defaultdict(set)
    for row in asked(PICTURE.format(bucket=bucket)):
        theirs[int(row["track_id"])].update(columns(int(row["ts"]), int(row["until"]), bucket))
    every: dict[int, set[int]] = defaultdict(set)
    for slice_ in (s for s in slices if s.same):
        every[slice_.track].update(columns(slice_.begin, slice_.begin + slice_.duration, bucket))
    drawn: dict[int, set[int]] = defaultdict(set)
    for strip in timeline.picture(pixels=PIXELS).strips:
        if strip.lane.id in tracks:
            begins = strip.time - clock
            for begin, end in zip(begins.tolist(), (begins + strip.duration).tolist(), strict=True):
                drawn[tracks[strip.lane.id]].update(columns(begin, end, bucket))
    both = sum(len(drawn[t] & theirs[t]) for t in drawn)
    missing = sum(len(theirs[t] - drawn[t]) for t in drawn)
    more = sum(len(drawn[t] - theirs[t]) for t in drawn)
    gaps = sum(len(drawn[t] - every[t]) for t in drawn)
    print(f"\n{len(drawn)} tracks of {PIXELS} columns: {both:,} drawn by both, {missing:,} only by Perfetto, "
          f"{more:,} only by holter ({gaps:,} gaps in its blocks; else what Perfetto hides)")  # fmt: skip


def compare_arrows(flows: Rows, slices: dict[int, Slice], timeline: Timeline, clock: int) -> None:
    """Print for how many of Perfetto's arrows holter's timeline leads from and to the same."""
    pairs = [(slices[int(row["slice_out"])].same, slices[int(row["slice_in"])].same) for row in flows]
    known = [(a, b) for a, b in pairs if a and b]
    some = known[:: max(1, len(known) // ARROWS_LOOKED_UP)]
    same = 0
    for a, b in some:
        leads = connections(timeline, TimelineEvent(a.lane, a.begin + clock, a.duration, a.name))
        target = (b.lane.id, b.begin + clock, b.name)
        same += any((c.event.lane.id, c.event.time, c.event.name) == target for c in leads if not c.earlier)
    print(f"arrows: {len(flows):,} of Perfetto, {len(known):,} between events that holter has; "
          f"of {len(some)} looked up, {same} lead to the same")  # fmt: skip


def main() -> None:
    """Compare, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--trace-processor", type=Path, required=True)
    given = parser.parse_args()
    asked = partial(ask, given.trace_processor)
    version = subprocess.run([given.trace_processor, "--version"], capture_output=True, text=True, check=True)
    print(f"{version.stdout.splitlines()[0]}, {given.trace.name}\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        place, _ = import_job([given.trace], str(folder / "store"), "job", now_ns=0)
        trial = Trial(place)
        timeline = Timeline(trial)
        slices = {
            int(row["id"]): Slice(
                int(row["track_id"]), int(row["ts"]), int(row["dur"]), int(row["parent"]), row["name"]
            )
            for row in asked(given.trace, SLICES)
        }
        if not slices:
            raise SystemExit("Perfetto has no slices of it")
        named = {int(row["id"]): f"{row['name']} [{row['tid']}]" for row in asked(given.trace, TRACKS)}
        ours = events_of(timeline)
        clock = put_on_one_clock(ours, slices.values())
        tracks = compare_slices(slices, ours, named)
        compare_pixels(partial(asked, given.trace), slices.values(), timeline, clock, tracks)
        compare_arrows(asked(given.trace, FLOWS), slices, timeline, clock)
        print("\nwhat Perfetto has of the trace, and of holter's exports of it\n")
        sums = {"the trace": asked(given.trace, SUMS)}
        for format_ in ("perfetto", "chrome"):
            output = folder / f"export{formats()[format_].SUFFIX}"
            formats()[format_].write(trial, ExportSelection(), output)
            sums[f"--format {format_}"] = asked(output, SUMS)
        for of, found in sums.items():
            print(f"{of}:", ", ".join(f"{int(row['n']):,} {row['what']}" for row in found))


if __name__ == "__main__":
    main()
