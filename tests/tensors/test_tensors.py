"""Tensors of a job by pattern, collection and role: values, reductions, shapes, and what is missing."""

from __future__ import annotations

import numpy as np
import pytest
from tests.tensors.writing import Recording

from holter.store.compact import compact
from holter.tensors.errors import (
    InvalidWorker,
    ShapeUnavailableForStep,
    StepNotYetAvailable,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
)


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """`foo_*` at steps 0 to 4 with raw values, `boo_*` at 5 to 9; a collection over both; a loss."""
    recording = Recording(tmp_path_factory.mktemp("store"))
    test = {"include_regex": ["^foo"], "tensors": ["boo_5", "boo_6", "boo_17"]}
    recording.tell(test=test, weights={"roles": ["weight"]})
    roles = {f"boo_{n}": "act_out:relu" for n in range(10)}
    for step in range(10):
        group = "foo" if step < 5 else "boo"
        tensors = {f"{group}_{n}": np.full((3, 3, 3), float(step)) for n in range(10)}
        recording.save(step, tensors, raw=step < 5, roles={**roles, "foo_1": "weight"})
        recording.save(step, {"labels": np.arange(6).reshape(2, 3) + step}, values=True, rows=False)
    return recording.open()


def test_names_are_chosen_by_pattern_collection_and_role(job):
    assert len(job.tensors().names) == 21
    assert job.tensors("foo_.*").names == [f"foo_{n}" for n in range(10)]
    assert job.tensors("foo_1", "oo_2").names == ["boo_2", "foo_1", "foo_2"]
    assert len(job.tensors(collection="test")) == 12
    assert job.tensors("5$", collection="test").names == ["boo_5", "foo_5"]
    assert job.tensors(collection="weights").names == job.tensors(role="weight").names == ["foo_1"]
    assert len(job.tensors(role="act_out")) == len(job.tensors(role="act_out:relu")) == 10
    with pytest.warns(UserWarning, match="of role 'act'"):
        assert job.tensors(role="act").names == []


def test_what_matches_nothing_names_what_is_near(job):
    with pytest.warns(UserWarning, match="did you mean 'labels'"):
        assert job.tensors("lables").names == []
    with pytest.raises(TensorUnavailable, match="did you mean 'labels'"):
        job.tensors()["label"]
    with pytest.raises(ValueError, match=r"no collection 'tset' .*did you mean 'test'"):
        job.tensors(collection="tset")
    with pytest.raises(ValueError, match="regular expression"):
        job.tensors("(")
    with pytest.raises(ValueError, match=r"no reduction 'meen' .*did you mean 'mean'"):
        job.tensors().reduction("meen")


def test_values_shapes_and_steps_of_one_tensor(job):
    foo = job.tensors()["foo_3"]
    assert foo.steps() == [0, 1, 2, 3, 4]
    assert (foo.modes, foo.ranks) == (["train"], [0])
    assert foo.prev_steps(3) == foo.prev_steps(3, 0) == [0, 1, 2, 3]
    assert foo.prev_steps(3, 2) == [2, 3]
    assert np.array_equal(foo.value(2), np.full((3, 3, 3), 2.0))
    assert not foo.value(2).flags.writeable
    assert {step: value[0, 0, 0] for step, value in foo.values().items()} == {n: n for n in range(5)}
    assert foo.shape(1) == (3, 3, 3)
    assert foo.shapes() == dict.fromkeys(range(5), (3, 3, 3))
    labels = job.tensors()["labels"]
    assert labels.value(7).tolist() == [[7, 8, 9], [10, 11, 12]]
    assert labels.shape(7) == (2, 3)
    assert labels.reduction("median", 7) == 9.5
    assert job.tensors("foo_1|labels").value(1)["labels"].shape == (2, 3)


def test_what_was_saved_as_statistics_only(job):
    boo = job.tensors()["boo_1"]
    with pytest.raises(TensorUnavailableForStep, match="only statistics") as missing:
        boo.value(5)
    assert missing.value.has_reductions
    with pytest.raises(ShapeUnavailableForStep):
        boo.shape(5)
    assert boo.reduction("l1", 5) == 5.0 * 27
    with pytest.raises(TensorUnavailableForStep, match="prod of it cannot be known"):
        boo.reduction("prod", 5)
    assert job.tensors()["foo_1"].reduction("prod", 2) == 2.0**27
    assert boo.values() == {}


def test_a_step_that_is_not_there(job):
    foo = job.tensors()["foo_1"]
    with pytest.raises(TensorUnavailableForStep, match=r"saved at steps 0, 1, 2, 3, 4"):
        foo.value(7)
    with pytest.raises(StepNotYetAvailable):
        foo.value(16)
    with pytest.raises(StepNotYetAvailable):
        foo.value(1, "eval")
    with pytest.raises(InvalidWorker, match="these did: 0"):
        foo.value(1, rank=3)
    with pytest.raises(TensorUnavailableForStep):
        job.tensors("foo").at(8)
    with pytest.raises(StepNotYetAvailable):
        job.tensors("foo").at(99)


def test_a_mode_that_was_never_seen_is_empty(job):
    # D24: the reference raised a bare KeyError.
    assert job.tensors().steps("eval") == []
    assert job.tensors()["foo_1"].steps("eval") == []


def test_tables(job):
    at = job.tensors("foo").at(step=2)
    assert at.table["name"].tolist() == [f"foo_{n}" for n in range(10)]
    assert "foo_9" in at._repr_html_()
    norms = job.tensors("foo_[12]").reduction("l2", "abs_max")
    assert list(norms.table.columns) == ["name", "step", "mode", "rank", "l2", "abs_max"]
    assert norms.table["abs_max"].tolist() == [0.0, 1, 2, 3, 4] * 2
    assert norms.to_arrow().num_rows == 10
    assert job.tensors()["foo_1"].history("mean").table["mean"].tolist() == [0.0, 1, 2, 3, 4]
    assert len(list(job.tensors("foo_1").to_rows())) == 5
    assert "foo_1" in repr(job.tensors("foo_1"))
    assert "steps 0, 1" in repr(job.tensors()["foo_1"])


def test_skipped_steps_while_the_job_grows(tmp_path):
    recording = Recording(tmp_path)
    for step in (1, 3, 5, 7):
        recording.save(step, {"foo": step}, raw=True)
    job = recording.open()
    foo = job.tensors()["foo"]
    assert foo.value(7) == 7
    with pytest.raises(StepUnavailable, match="5 and 7"):
        foo.value(6)
    with pytest.raises(StepNotYetAvailable):
        foo.value(16)
    for step in (9, 11, 13, 15):
        recording.save(step, {"foo": step, "new": 1}, raw=True)
    assert foo.value(9) == 9
    assert job.tensors().names == ["foo", "new"]
    with pytest.raises(StepUnavailable):
        foo.value(8)
    with pytest.raises(StepNotYetAvailable):
        foo.value(24)
    recording.end()
    with pytest.raises(StepUnavailable):
        foo.value(24)


def test_reading_goes_on_over_a_compaction(tmp_path):
    recording = Recording(tmp_path)
    for step in range(8):
        recording.save(step, {"a": float(step), "b": 1.0})
    tensor = recording.open().tensors()["a"]
    assert tensor.steps() == [*range(8)]
    assert compact(recording.folder)
    recording.save(8, {"a": 8.0})
    assert tensor.steps() == [*range(9)]
    assert tensor.history("max").table["max"].tolist() == [float(n) for n in range(9)]


def test_one_step_number_in_two_modes(tmp_path):
    recording = Recording(tmp_path)
    recording.save(5, {"loss": 1.0})
    recording.save(5, {"loss": 2.0}, mode="eval")
    loss = recording.open().tensors()["loss"]
    assert loss.modes == ["eval", "train"]
    assert loss.reduction("mean", 5) == loss.reduction("mean", 5, "train") == 1.0
    assert loss.reduction("mean", 5, "eval") == 2.0


def test_rows_on_their_way_are_not_taken_for_missing(tmp_path):
    # The tables are written one by one, and whole tensors before both.
    recording = Recording(tmp_path)
    for step in (0, 1):
        recording.save(step, {"w": 1.0, "v": 1.0})
        recording.save(step, {"labels": [1, 2]}, values=True, rows=False)
    job = recording.open()
    w, labels = job.tensors()["w"], job.tensors()["labels"]
    recording.save(2, {"v": 1.0}, raw=True, rows=False)
    with pytest.raises(StepNotYetAvailable, match="on their way"):
        w.reduction("mean", 2)
    with pytest.raises(StepNotYetAvailable):
        job.tensors("w").at(2)
    recording.save(2, {"v": 1.0})
    with pytest.raises(TensorUnavailableForStep):
        w.reduction("mean", 2)
    with pytest.raises(StepNotYetAvailable, match="on their way"):
        labels.value(2)
    recording.end()
    with pytest.raises(TensorUnavailableForStep):
        labels.value(2)


def test_a_rank_that_the_document_does_not_name_yet_counts(tmp_path):
    recording = Recording(tmp_path, ranks=[0])
    recording.save(0, rank=0)
    recording.save(0, rank=1)
    recording.save(1, rank=0)
    tensors = recording.open().tensors()
    assert (tensors.ranks, tensors.steps()) == ([0, 1], [0])


def test_collections_that_come_later_are_seen(tmp_path):
    # D32: the reference's collections were frozen after the first saved step.
    recording = Recording(tmp_path)
    recording.save(0, {"a": 1.0})
    job = recording.open()
    assert job.tensors().names == ["a"]
    recording.save(1, {"later": 1.0})
    recording.tell(new={"tensors": ["later"], "include_regex": []})
    assert job.tensors(collection="new").names == ["later"]
    assert list(job.tensors().collections) == ["new"]


@pytest.mark.parametrize(
    "document", [b"", b"[]", b"{", b'{"collections": 3, "ranks": {}}', b'{"collections": {"a": 1}}']
)
def test_a_damaged_document_costs_only_itself(tmp_path, document):
    recording = Recording(tmp_path)
    recording.save(0, {"a": 1.0})
    recording.folder.place.write("tensors.json", document)
    tensors = recording.open().tensors()
    assert (tensors.names, tensors.ranks, tensors.steps(), tensors.collections) == (["a"], [0], [0], {})


def test_odd_names(tmp_path):
    recording = Recording(tmp_path)
    odd = ["it's", 'a"b', "größe", "a%b_c", "x;DROP TABLE tensors", "("]
    recording.save(0, dict.fromkeys(odd, 1.0))
    tensors = recording.open().tensors()
    assert tensors.names == sorted(odd)
    for name in odd:
        assert tensors[name].reduction("mean", 0) == 1
    with pytest.raises(TensorUnavailable):
        tensors["a\x00b"]
