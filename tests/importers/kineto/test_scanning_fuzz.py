"""What the compiled scanner takes apart is what Python decodes, for traces that chance has changed.

CI tries the same traces each time. `HOLTER_FUZZ_SEED=0` tries others, `HOLTER_FUZZ_SEED=N` repeats a run, and
`HOLTER_FUZZ_TRACES` sets the number of traces.
"""

from __future__ import annotations

import ast
import json
import os
import random
from collections import Counter

import pytest
from tests.importers.kineto.usual import COMMON, EVENTS, both

from holter.importers.kineto import scanning

SEED = int(os.environ.get("HOLTER_FUZZ_SEED", "1")) or random.SystemRandom().randrange(1, 2**32)
TRACES = int(os.environ.get("HOLTER_FUZZ_TRACES", "1500"))
"""Some twenty seconds on a quiet core, for CI has many other tests; 10,000 are two minutes."""
VALUES = (
    "0", "-0", "-1", "1.5", "0.1", "1e3", "1E-2", "1e400", "9007199254740993.5", "9" * 18, "9" * 19, "9" * 40,
    "9223372036854775807", "-9223372036854775808", "true", "false", "null", '""', '"a"', '"X"', '"i"', '"M"',
    '"cpu_op"', '"kernel"', '"ac2g"', '"[memory]"', r'"\""', r'"\\"', r'"ü\ud83d\ude00"', '"12.5"', "[]",
    "{}", "[1,[2]]", '{"a":[{}]}', '"ProfilerStep#3"', '"ncclDevKernel_AllReduce"',
)  # fmt: skip
NUMBERED = [event for event in EVENTS if not isinstance(event.get("tid"), str)]
"""Without those whose thread is a text: such threads, and one number in two processes, are numbered as they
are met, and the scanner meets usual events before all others. So chance leaves `pid` and `tid` alone. Every
event keeps a category, because an event without one belongs to a device if earlier events of its thread do.
`args` are objects: of other values Python keeps the text only next to an odd event."""
KEYS = (
    "ph",
    "ts",
    "dur",
    "cat",
    "name",
    "id",
    "Input Dims",
    "correlation",
    "device",
    "stream",
    "bytes",
    "zzz",
)
DAMAGE = b'"\\{}[],:0-.e \x01\xff'


@pytest.fixture(autouse=True)
def compiler() -> None:
    scanning._library.cache_clear()
    if not scanning.compiled():
        pytest.skip("what takes events apart was not compiled here: `python hatch_build.py` says why")


def meant(found: tuple) -> tuple:
    """Return what was read with details as JSON: decoding and encoding an event may spell them otherwise."""
    rows: Counter = Counter()
    for row, times in found[0].items():
        cells = []
        for cell in row[1:]:
            try:
                detail = json.dumps(json.loads(ast.literal_eval(cell)))
                cells.append("''" if detail == "{}" else detail)
            except (ValueError, TypeError):
                cells.append(cell)
        rows[(row[0], *cells)] += times
    return rows, *found[1:]


def blank(chance: random.Random) -> str:
    return chance.choice(["", "", "", " ", "\n  ", "\t", " " * 17])


def spelled(chance: random.Random, given: dict) -> str:
    """Return an object as JSON: a few values changed, fields left out, added, twice, in another order."""
    pairs = [
        (key, spelled(chance, one) if isinstance(one, dict) else json.dumps(one))
        for key, one in given.items()
    ]
    if chance.random() < 0.3:
        chance.shuffle(pairs)
    for at in range(len(pairs)):
        if pairs[at][0] not in ("pid", "tid", "args") and chance.random() < 0.06:
            pairs[at] = (pairs[at][0], chance.choice(VALUES))
    if pairs and chance.random() < 0.05:
        left_out = chance.choice(pairs)
        pairs = [pair for pair in pairs if pair != left_out or pair[0] in ("pid", "tid", "cat")]
    known = [key for key, _ in pairs]
    if chance.random() < 0.1 and (fresh := [key for key in KEYS if key not in known]):
        pairs.insert(chance.randrange(len(pairs) + 1), (chance.choice(fresh), chance.choice(VALUES)))
    between = blank(chance)
    inside = f"{blank(chance)},{between}".join(
        f"{json.dumps(key)}{between}:{blank(chance)}{text}" for key, text in pairs
    )
    return f"{{{between}{inside}{between}}}"


def test_changed_traces_are_read_as_python_reads_them(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("holter.importers.kineto.trace_events.BLOCK", 1 << 11)
    path = tmp_path / "trace.json"
    whole = damaged = 0
    for number in range(TRACES):
        chance = random.Random(SEED + number)
        events = chance.choices(NUMBERED, k=chance.randrange(1, 12))
        text = (
            '{"traceEvents":[' + ",".join(spelled(chance, COMMON | one) for one in events) + "]}"
        ).encode()
        harmed = chance.random() < 0.3
        if harmed:
            changed = bytearray(text)
            changed[chance.randrange(16, len(text))] = chance.choice(DAMAGE)
            text = bytes(changed)
        path.write_bytes(text)
        (taken, *counted), (decoded, *expected) = [meant(one) for one in both(path, monkeypatch)]
        say = f"HOLTER_FUZZ_SEED={SEED + number} HOLTER_FUZZ_TRACES=1: {taken - decoded} {decoded - taken}"
        say += f" {counted} {expected} {text!r}"
        if harmed:
            damaged += 1  # an argument that is dropped may be damaged unseen: then there is more, never less
            assert sum((decoded - taken).values()) <= 8, say
        else:
            whole += 1
            assert (taken, counted) == (decoded, expected), say
    if TRACES > 100:
        assert min(whole, damaged) > TRACES // 10
