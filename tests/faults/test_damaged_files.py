"""Single damaged bytes of a spool and of a manifest; `benchmarks/damage.py` damages every byte."""

from __future__ import annotations

import pytest
from tests.faults.damaged_files import FILES, manifest, spool
from tests.faults.damages import damages


def test_every_byte_is_damaged_in_each_way_that_changes_it():
    assert list(damages(b"\0a")) == [
        ("cut", 0, b""),
        ("flipped", 0, b"\1a"),
        ("full", 0, b"\xffa"),
        ("cut", 1, b"\0"),
        ("flipped", 1, b"\0c"),
        ("zero", 1, b"\0\0"),
        ("full", 1, b"\0\xff"),
    ]


@pytest.mark.parametrize(("name", "every"), list(zip(FILES, (13, 67, 5), strict=True)))
def test_a_damaged_byte_of_a_spool_costs_its_own_record(name, every, tmp_path):
    tally = spool(tmp_path, name, every, first=1)
    assert not tally.problems
    assert tally.tried > 100


def test_what_is_drained_from_a_damaged_segment_can_be_stored_and_described(tmp_path):
    assert not spool(tmp_path, "segment", 331, first=5, stored=True).problems


def test_a_damaged_manifest_hides_no_other_job(tmp_path):
    tally = manifest(tmp_path, 47, first=2)
    assert not tally.problems
    assert 0 < tally.unharmed < tally.tried
