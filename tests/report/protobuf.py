"""Read Protocol Buffers' wire format: fields of a message in order, without knowing what they mean."""

from __future__ import annotations

import struct


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at


def fields(data):
    """Return [(field, value)]: a number, 8 bytes as they are, or bytes."""
    found, at = [], 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        elif tag & 7 == 1:
            value, at = data[at : at + 8], at + 8
        else:
            assert tag & 7 == 2
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
            assert len(value) == size
        found.append((tag >> 3, value))
    assert at == len(data)
    return found


def perfetto(data):
    """Return tracks by number, slices as (track, begin, end, name, arrows), and values of counters."""
    names, tracks, open_, slices, values, base = {}, {}, {}, [], [], 0
    for field, packet in fields(data):
        assert field == 1
        told = dict(fields(packet))
        if 6 in told:
            clocks = [dict(fields(clock)) for field, clock in fields(told[6])]
            by_clock = {clock[1]: clock[2] for clock in clocks}
            base = by_clock[1] - by_clock[6]
        for kind, interned in fields(told.get(12, b"")):
            entry = dict(fields(interned))
            names[kind, entry[1]] = entry[2].decode()
        if 60 in told:
            track = dict(fields(told[60]))
            tracks[track[1]] = track
        if 11 not in told:
            continue
        pairs = fields(told[11])
        event, at = dict(pairs), told[8] + base
        assert event[11] in tracks, "an event before its track"
        if event[9] == 1:
            arrows = [
                (field == 48, struct.unpack("<Q", value)[0]) for field, value in pairs if field in (47, 48)
            ]
            open_.setdefault(event[11], []).append((at, names[2, event[10]], arrows))
        elif event[9] == 2:
            begin, name, arrows = open_[event[11]].pop()
            slices.append((event[11], begin, at, name, arrows))
        else:
            values.append((event[11], at, struct.unpack("<d", event[44])[0]))
    assert not any(open_.values()), "a slice does not end"
    return tracks, slices, values
