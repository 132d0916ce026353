"""How many tensors a description says were saved, of which collections and when."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from tests.tensors.writing import Recording

import holter.views
from holter.store.trial import Trial
from holter.views.document.description import describe
from holter.views.document.saved_tensors import saved_text

PUBLISHED = json.loads(Path(holter.views.__file__).with_name("description.schema.json").read_text())


def test_a_description_tells_what_was_saved(tmp_path):
    recording = Recording(tmp_path)
    recording.tell(gradients={"include_regex": ["^gradient/"]}, all={"include_regex": [".*"]}, biases={})
    for step in (0, 10, 20):
        recording.save(step, {"gradient/fc.weight": [1.0, 2.0], "fc.weight": [3.0]})
    recording.save(20, {"fc.weight": [3.0]}, raw=True, rows=False)
    document = describe(Trial(recording.folder))
    jsonschema.validate(document, PUBLISHED)
    assert document["tensors"] == {
        "count": 2,
        "collections": ["gradients"],
        "steps": 3,
        "first_step": 0,
        "last_step": 20,
        "whole_steps": 1,
    }
    assert (
        saved_text(document["tensors"]) == "2 tensors (gradients) at 3 steps, 0 to 20; whole ones at 1 step"
    )


def test_whole_tensors_alone_and_values_alone_count_too(tmp_path):
    whole = Recording(tmp_path, "whole")
    whole.save(7, {"x": [1.0]}, raw=True, rows=False)
    assert saved_text(describe(Trial(whole.folder))["tensors"]) == "whole tensors in step 7"
    valued = Recording(tmp_path, "valued")
    valued.save(3, {"x": [1.0]}, values=True, rows=False)
    assert saved_text(describe(Trial(valued.folder))["tensors"]) == "1 tensor in step 3"


@pytest.mark.parametrize("told", [False, True])
def test_where_nothing_was_saved_nothing_is_told(tmp_path, told):
    recording = Recording(tmp_path)
    if told:
        recording.tell(gradients={"roles": ["grad"]})
    assert describe(Trial(recording.folder))["tensors"] is None
