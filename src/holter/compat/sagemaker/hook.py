"""`DebuggerHookConfig` and `CollectionConfig` of `sagemaker.debugger`: the tensors that a job saves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class CollectionConfig:
    """A collection by name, and its parameters, such as `{"save_interval": "100", "include_regex": "relu"}`.

    Raises:
        TypeError: A name or parameters of the wrong type.
    """

    def __init__(self, name: str, parameters: Mapping[str, Any] | None = None) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f"name must be a text, not {name!r}")
        self.name = name
        self.parameters = _parameters("parameters", parameters)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CollectionConfig):
            raise TypeError(f"a CollectionConfig is compared with {type(other).__name__}")
        return self.serialize() == other.serialize()

    def __hash__(self) -> int:
        return hash(json.dumps(self.serialize(), sort_keys=True))

    def serialize(self) -> dict[str, Any]:
        """Return its entry in the configuration of a hook."""
        parameters = {"CollectionParameters": self.parameters} if self.parameters else {}
        return {"CollectionName": self.name, **parameters}


class DebuggerHookConfig:
    """Which tensors are saved. `holter run --config FILE` takes the result of `serialize` as a JSON file.

    Raises:
        TypeError: A value of the wrong type.
    """

    def __init__(
        self,
        s3_output_path: str | None = None,
        container_local_output_path: str | None = None,
        hook_parameters: Mapping[str, Any] | None = None,
        collection_configs: Iterable[CollectionConfig] | None = None,
    ) -> None:
        self.s3_output_path = _path("s3_output_path", s3_output_path)
        self.container_local_output_path = _path("container_local_output_path", container_local_output_path)
        self.hook_parameters = _parameters("hook_parameters", hook_parameters)
        self.collection_configs = list(collection_configs or [])
        for one in self.collection_configs:
            if not isinstance(one, CollectionConfig):
                raise TypeError(f"collection_configs holds {one!r}, which is no CollectionConfig")

    def serialize(self) -> dict[str, Any]:
        """Return what a hook's JSON file holds."""
        entries = {
            "S3OutputPath": self.s3_output_path,
            "LocalPath": self.container_local_output_path,
            "HookParameters": self.hook_parameters,
            "CollectionConfigurations": [one.serialize() for one in self.collection_configs] or None,
        }
        return {key: value for key, value in entries.items() if value is not None}


class TensorBoardOutputConfig:
    """Where event files for TensorBoard go; here `holter export JOB --format tensorboard` writes them."""

    def __init__(self, s3_output_path: str, container_local_output_path: str | None = None) -> None:
        self.s3_output_path = _path("s3_output_path", s3_output_path)
        self.container_local_output_path = _path("container_local_output_path", container_local_output_path)

    def serialize(self) -> dict[str, str]:
        """Return it by the names of the service."""
        entries = {"S3OutputPath": self.s3_output_path, "LocalPath": self.container_local_output_path}
        return {key: value for key, value in entries.items() if value is not None}


def _path(name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} must be a text, not {value!r}")
    return value


def _parameters(name: str, given: Any) -> dict[str, Any]:
    if given is not None and not hasattr(given, "keys"):
        raise TypeError(f"{name} must be a dictionary, not {given!r}")
    return dict(given or {})
