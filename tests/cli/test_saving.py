"""SageMaker's JSON of its Debugger hook: what is read from it, and refusals of wrong values."""

from __future__ import annotations

import json

import pytest

from holter.cli.options import Refusal
from holter.cli.run.saving import read_hook
from holter.recorder.tensors.requests import requests


def read(tmp_path, hook, *collections):
    path = tmp_path / "hook.json"
    named = [{"CollectionName": name, "CollectionParameters": given} for name, given in collections]
    path.write_text(json.dumps({"HookParameters": hook, "CollectionConfigurations": named}))
    return {one.name: one for one in requests(read_hook(str(path), json.loads(path.read_text())))}


def test_words_that_the_reference_documents_and_refuses(tmp_path):
    # D14: l1, l2, median and their kin; flags as texts, and without a word about reductions; dry_run.
    given = {"reductions": "l1, abs_l2 ,median,abs_median,l1_norm", "save_interval": "3"}
    found = read(tmp_path, given, ("gradients", None), ("weights", {"reductions": "", "save_shape": "True"}))
    assert set(found) == {"losses", "gradients", "weights"}
    assert found["gradients"].schedules["train"].interval == 3
    assert "each" in found["gradients"].statistics
    assert found["gradients"].kept == frozenset()
    assert (found["weights"].statistics, found["weights"].kept) == ((), {"shape"})
    raw = read(tmp_path, {"save_raw_tensor": "true", "reductions": "prod"}, ("weights", {}))
    assert raw["weights"].kept == {"raw", "prod"}
    kept = read(tmp_path, {"reductions": "abs_prod,abs_min,min"}, ("weights", {}))["weights"].kept
    assert kept == {"prod", "abs_min"}
    assert read(tmp_path, {"dry_run": "true", "save_all": True}) == {}


@pytest.mark.parametrize(
    ("hook", "collection", "said"),
    [
        ({"reductions": "mean,medain"}, ("weights", {}), "'medain'.*median"),
        ({"save_interval": "often"}, ("weights", {}), "save_interval 'often'"),
        ({"save_interval": "0"}, ("weights", {}), "interval 0 is not possible"),
        ({"save_intervall": "5"}, ("weights", {}), "'save_intervall'.*save_interval"),
        ({"save_shape": "maybe"}, ("weights", {}), "save_shape"),
        ({}, ("wieghts", {}), "'wieghts'.*weights"),
        ({}, ("mine", {"include_regex": "("}), "no regular expression"),
    ],
)
def test_what_makes_no_sense_is_said(tmp_path, hook, collection, said):
    with pytest.raises((Refusal, ValueError), match=said):
        read(tmp_path, hook, collection)
