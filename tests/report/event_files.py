"""A reader of event files of its own, from the public description of the format, and TensorBoard's."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BY_TENSORBOARD = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
found = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "histograms": 0})
found.Reload()
tags = found.Tags()
print(json.dumps({
    "scalars": {t: [[e.wall_time, e.step, e.value] for e in found.Scalars(t)] for t in tags["scalars"]},
    "histograms": {t: [[e.step, list(e.histogram_value.bucket_limit), list(e.histogram_value.bucket),
                        e.histogram_value.num, e.histogram_value.sum, e.histogram_value.sum_squares]
                       for e in found.Histograms(t)] for t in tags["histograms"]},
}))
"""


def by_tensorboard(run: Path) -> dict[str, Any]:
    """Read a folder with TensorBoard itself, in a process of its own for the sake of its warnings."""
    done = subprocess.run(
        [sys.executable, "-c", BY_TENSORBOARD, str(run)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def crc32c(data: bytes) -> int:
    """Bit by bit, as the polynomial says."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def _check(data: bytes, masked: bytes) -> None:
    rotated = (struct.unpack("<I", masked)[0] - 0xA282EAD8) & 0xFFFFFFFF
    assert (rotated >> 17 | rotated << 15) & 0xFFFFFFFF == crc32c(data)


def fields(message: bytes) -> dict[int, Any]:
    """Read the fields of a protocol-buffer message; a number for each field, the last one counts."""
    found: dict[int, Any] = {}
    at = 0

    def varint() -> int:
        nonlocal at
        number = shift = 0
        while True:
            byte = message[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            found[key >> 3] = varint()
        elif key & 7 == 2:
            size = varint()
            found[key >> 3] = message[at : at + size]
            at += size
        else:
            kind, size = {1: ("<d", 8), 5: ("<f", 4)}[key & 7]
            (found[key >> 3],) = struct.unpack(kind, message[at : at + size])
            at += size
    return found


def events(path: Path) -> Iterator[dict[int, Any]]:
    """Read the records of a file and check their checksums."""
    data = path.read_bytes()
    at = 0
    while at < len(data):
        (size,) = struct.unpack("<Q", data[at : at + 8])
        _check(data[at : at + 8], data[at + 8 : at + 12])
        body = data[at + 12 : at + 12 + size]
        _check(body, data[at + 12 + size : at + 16 + size])
        yield fields(body)
        at += 16 + size
    assert at == len(data)


def by_hand(run: Path) -> dict[str, Any]:
    """Read a folder as `by_tensorboard` does."""
    (path,) = run.glob("*tfevents*")
    found: dict[str, Any] = {"scalars": {}, "histograms": {}}
    first, *rest = events(path)
    assert first[3] == b"brain.Event:2"
    for event in rest:
        value = fields(fields(event[5])[1])
        tag = value[1].decode()
        if 2 in value:
            found["scalars"].setdefault(tag, []).append([event[1], event[2], value[2]])
        else:
            told = fields(value[5])
            limits, heights = (list(struct.unpack(f"<{len(told[n]) // 8}d", told[n])) for n in (6, 7))
            row = [event[2], limits, heights, told[3], told[4], told[5]]
            found["histograms"].setdefault(tag, []).append(row)
    return found
