"""smdebug's `S3Trial`: a job in a bucket."""

from __future__ import annotations

from typing import Any

from holter.compat.smdebug.trials.local_trial import LocalTrial


class S3Trial(LocalTrial):
    """The tensors of a job below `s3://bucket_name/prefix_name`."""

    def __init__(
        self,
        name: str,
        bucket_name: str,
        prefix_name: str,
        range_steps: tuple[int | None, int | None] | None = None,
        **ignored: Any,
    ) -> None:
        """Open it; arguments and errors are those of `create_trial`."""
        super().__init__(name, f"s3://{bucket_name}/{prefix_name}", range_steps, **ignored)
        self.bucket_name, self.prefix_name = bucket_name, prefix_name
