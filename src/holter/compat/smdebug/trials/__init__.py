"""smdebug's trials, at the paths at which smdebug has them."""

from holter.compat.smdebug.trials.local_trial import LocalTrial
from holter.compat.smdebug.trials.s3_trial import S3Trial
from holter.compat.smdebug.trials.trial import Collection, Trial
from holter.compat.smdebug.trials.utils import create_trial

__all__ = ["Collection", "LocalTrial", "S3Trial", "Trial", "create_trial"]
