"""`DebuggerHookConfig` of a launcher script: the collections that it asks for, and what has no effect."""

from __future__ import annotations

import json

import pytest

from holter.cli.run import configuration
from holter.compat.sagemaker import CollectionConfig, DebuggerHookConfig, TensorBoardOutputConfig
from holter.recorder.tensors.requests import requests

KERAS = DebuggerHookConfig(
    s3_output_path="s3://bucket/debug",
    container_local_output_path="/opt/ml/output/tensors",
    hook_parameters={
        "save_interval": "100",
        "eval.save_interval": "10",
        "include_regex": "relu,tanh",
        "include_workers": "all",
        "export_tensorboard": "true",
        "tensorboard_dir": "/tmp/board",
        "reductions": "mean,std",
    },
    collection_configs=[
        CollectionConfig("weights", {"save_histogram": "true", "train.save_interval": "7"}),
        CollectionConfig("gradients", {"start_step": "5", "end_step": "50", "save_steps": "3, 99"}),
        CollectionConfig("optimizer_variables"),
        CollectionConfig("metrics", {"save_interval": "5"}),
        CollectionConfig("custom_relu", {"include_regex": ".*relu_output"}),
        CollectionConfig("tensorflow_summaries"),
    ],
)
XGBOOST = DebuggerHookConfig(
    hook_parameters={"save_interval": "5"},
    collection_configs=[
        CollectionConfig(name)
        for name in ("metrics", "predictions", "labels", "feature_importance", "average_shap", "trees")
    ]
    + [CollectionConfig("hyperparameters")],
)


def taken(config, tmp_path, capsys):
    """Return the collections that `holter run --config` saves, and its warnings."""
    path = tmp_path / "hook.json"
    path.write_text(json.dumps(config.serialize()))
    found = configuration.read_file(str(path)).tensors
    return {one.name: one for one in requests(found)}, capsys.readouterr().err


def test_a_configuration_for_keras_saves_what_it_asks_for(tmp_path, capsys):
    found, _ = taken(KERAS, tmp_path, capsys)
    assert set(found) == {"losses", "weights", "gradients", "optimizer_state", "custom_relu", "default"}
    weights, gradients = found["weights"].schedules, found["gradients"].schedules["train"]
    assert (weights["train"].interval, weights["eval"].interval, weights["predict"].interval) == (7, 10, 100)
    assert (gradients.interval, gradients.start, gradients.end, gradients.steps) == (100, 5, 50, (3, 99))
    assert "histogram" in found["weights"].kept
    assert "raw" not in found["weights"].kept
    assert found["custom_relu"].include_regex == (".*relu_output",)
    assert found["default"].include_regex == ("relu", "tanh")


def test_settings_without_effect_are_reported_by_name(tmp_path, capsys):
    _, warned = taken(KERAS, tmp_path, capsys)
    told = {line.split("hook.json: ")[1].split(" no effect")[0] for line in warned.splitlines()}
    assert told == {
        *(f"{name} has" for name in ("LocalPath", "S3OutputPath", "include_workers", "export_tensorboard")),
        "tensorboard_dir has",
        "the parameters of collection metrics have",
        "collection tensorflow_summaries has",
    }
    _, quiet = taken(DebuggerHookConfig(collection_configs=[CollectionConfig("weights")]), tmp_path, capsys)
    assert quiet == ""


def test_a_configuration_for_xgboost_saves_what_it_asks_for(tmp_path, capsys):
    found, warned = taken(XGBOOST, tmp_path, capsys)
    names = {"losses", "predictions", "labels", "feature_importance", "average_shap", "trees"}
    assert set(found) == names
    assert all(one.schedules["train"].interval == 5 for one in found.values())
    assert "hyperparameters" in warned
    assert "metrics" not in warned


def test_configurations_are_compared_by_what_they_ask_for():
    one, other = CollectionConfig("weights", {"save_interval": 5}), CollectionConfig("weights")
    assert one == CollectionConfig("weights", {"save_interval": 5})
    assert one != other
    assert len({one, other, CollectionConfig("weights")}) == 2
    with pytest.raises(TypeError, match="compared with str"):
        _ = one == "weights"
    for wrong in (
        lambda: CollectionConfig(5),
        lambda: CollectionConfig("weights", "save_interval"),
        lambda: DebuggerHookConfig(collection_configs=["weights"]),
        lambda: DebuggerHookConfig(s3_output_path=5),
    ):
        with pytest.raises(TypeError):
            wrong()


def test_an_output_for_tensorboard_keeps_its_paths():
    found = TensorBoardOutputConfig("s3://bucket/board", "/opt/board").serialize()
    assert found == {"S3OutputPath": "s3://bucket/board", "LocalPath": "/opt/board"}
