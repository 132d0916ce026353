"""Tests of the builders of test tables."""

from __future__ import annotations

from tests.rules.tensor_rows import elements


def test_elements_keep_their_shape():
    listed = elements("x", {0: [[1, 2], [3, 4]]})
    assert [r["value"] for r in listed if r["kind"] == "shape"] == [2, 2]
