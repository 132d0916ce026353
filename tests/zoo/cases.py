"""Which training makes which rule speak, and which keeps it silent."""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """A rule as a user writes it, a training in which it fires, and its healthy twin."""

    rule: str
    sick: str
    well: str
    tells: str = ""
    """What one of its summaries has to say."""
    level: str = ""
    """How severe it is at least, and nothing of the twin; by default warning, or info of rules of notes."""

    @property
    def name(self) -> str:
        """Return the rule's name, without its parameters."""
        return self.rule.partition(":")[0]


# Parameters are given where the default waits for more time to be lost than a test should take. What the
# clock judges loses well more than that, and its twin less even on a machine that is busy.
CASES = [
    Case("DataloaderBottleneck", "slow_input", "convolutions", "data"),
    Case("Dataloader:patience=0,min_threshold=1000", "slow_input", "convolutions"),
    Case("IOBottleneck", "slow_storage", "slow_input", "reading"),
    Case("LoaderWorkerImbalance", "lame_worker", "lame_worker_well", "worker 1"),
    Case("CheckpointStall:min_lost_s=0.1", "saves_too_often", "checkpointed"),
    Case("NoCheckpoint:after_h=0.0008", "hangs", "checkpointed"),
    Case("EvalOverhead:min_lost_s=0.02", "evaluates_too_often", "evaluated"),
    Case("ValidationNotRun", "forgets_to_evaluate", "evaluated", "since step 6"),
    Case("GCPause:min_lost_s=0.4", "litters", "litters_well"),
    Case("BetweenStepOverhead:min_lost_s=0.8", "dawdles", "dawdles_well"),
    Case("StepOutlier:min_lost_s=2.5", "stumbles", "stumbles_well"),
    Case("FirstStepSlow:min_s=2", "starts_late", "tiny"),
    Case("MaxInitializationTime:threshold=0.06", "starts_late", "tiny"),
    Case("RecompilationStorm:min_lost_s=0.1", "compiles_again", "compiles_again_well"),
    Case("StalledTraining:min_s=3,max_s=3", "hangs", "dawdles"),
    Case("ObserverOverhead:min_lost_s=0.5", "watches_itself", "hangs"),
    Case("LossNotDecreasing:num_steps=100", "learns_nothing", "learns_nothing_well"),
    Case("LossSpike", "jumps", "tiny"),
    Case("GradientNormSpike", "jumps", "brain_float"),
    Case("NonFiniteLoss", "takes_the_log_of_zero", "tiny"),
    Case("NonFiniteGradient", "takes_the_log_of_zero", "scaled_half"),
    Case("LossScaleCollapse", "scale_never_settles", "scaled_half"),
    Case("Overfit", "learns_by_heart", "evaluated"),
    Case("Overtraining", "learns_by_heart", "evaluated"),
    Case("MetricDivergence", "learns_by_heart", "evaluated"),
    Case("OptimizerNotStepping", "stands_still", "tiny"),
    Case("VanishingGradient", "deep_sigmoid", "convolutions", "gradient/0.weight"),
    Case("ExplodingTensor", "overflows", "convolutions"),
    Case("WeightUpdateRatio", "rate_too_high", "tiny"),
    Case("UnchangedTensor", "forgotten_layer", "tiny", "0.weight"),
    Case("MissingGradient", "unused_branch", "tiny", "unused.weight"),
    Case("DeadRelu", "dead", "convolutions", "relu2"),
    Case("DeadNeurons", "dead", "convolutions", "relu2"),
    Case("AllZero", "dead", "convolutions"),
    Case("SaturatedActivation", "flat", "flat_well"),
    Case("PoorWeightInitialization", "poorly_initialised", "tiny"),
    Case("UnevenGradientScale", "uneven", "uneven_well"),
    Case("TensorVariance", "collapses", "tiny"),
    Case("LostUpdates", "rounds_away", "rounds_away_well"),
    Case("NumericHeadroom", "near_overflow", "scaled_half"),
    Case("CheckInputImages", "raw_pixels", "convolutions"),
    Case("ClassImbalance", "lopsided", "lopsided_well"),
    Case("Confusion:min_diag=0.5,start_step=100", "lopsided", "lopsided_well"),
    Case("NLPSequenceRatio", "mostly_padding", "transformer"),
    Case("PaddingWaste:batches=5", "mostly_padding", "transformer"),
    Case("DataRepeat", "same_again", "tiny", "repeat the order", "info"),
    Case("SimilarAcrossRuns:other_trials=tiny", "fine_tuned", "tiny_again"),
    Case("DeadExperts:steps=50", "lonely_expert", "lonely_expert_well"),
    Case("NonFiniteGradient", "nan_in_one_module", "transformer", "gelu"),
    Case("StalledTrainingRule:threshold=3", "hangs", "dawdles"),
    Case("MissingZeroGrad", "keeps_gradients", "accumulates_irregularly", "at step 2"),
    Case("WeightsNotTrained", "freezes_all_but_norms", "adapts", "only normalization layers"),
    Case("WeightsNotTrained", "steps_without_change", "warms_up_from_zero", "no parameter has changed"),
    Case("WrongParameters", "optimizes_another_model", "critic_and_generator", "none of its 4"),
    Case("UnusedParameters", "cuts_its_graph", "distills_its_average", "first.weight"),
    Case("ModelInEvalMode", "stays_in_eval_mode", "returns_to_training", "since step 4"),
    Case("ModelInEvalMode", "stays_in_eval_mode", "tunes_the_head"),
    Case("DropoutInEvaluation", "drops_in_evaluation", "returns_to_training", "Regular.forward"),
    Case("EvaluationWithGradients", "evaluates_with_gradients", "returns_to_training", "validate at"),
    Case("EvaluationWithGradients", "evaluates_with_gradients", "attacks_itself"),
    Case("EvaluationWithGradients", "evaluates_with_gradients", "adapts_to_tasks"),
    Case("EvaluationWithGradients", "evaluates_with_gradients", "perceives"),
    Case("EvaluationWithGradients", "evaluates_with_gradients", "agrees_with_itself"),
    Case("RepeatedBatches", "workers_share_a_stream", "workers_have_own_streams", "of loader 0"),
    Case("LossOnProbabilities", "loss_of_probabilities", "distills_its_average", "softmax"),
    Case("UnsuitableInputs", "raw_pixels", "scales_pixels_itself", "pixels"),
    Case("UnsuitableInputs", "learns_from_nothing", "normalizes_first", "elements of the inputs are 0"),
    Case("UnsuitableInputs", "learns_from_gaps", "fills_gaps", "contain NaN"),
    Case("UnsuitableLabels", "labels_one_class", "rare_positives", "are class 3"),
    Case("UnsuitableLabels", "sorted_by_class", "shuffled", "sorted by class"),
    Case("UnsuitableLabels", "signed_targets", "zero_and_one", "-1 to 1"),
    Case("UnsuitableLabels", "ignores_all_labels", "contrasts_with_a_queue", "-100"),
    Case("CorruptedWeight", "flips_a_bit", "clamps_its_weights", "one bit"),
    Case("CorruptedWeight", "flips_between", "distills_its_average", "2.weight"),
    Case("EvaluationInTrainMode", "evaluates_in_training_mode", "averages_with_dropout", "sick_data.py"),
    Case("EvaluationInTrainMode", "passes_in_training_mode", "recalibrates_norms", "sick_data.py"),
    Case("TrainedShareChanges", "thaws_in_train", "unfreezes_gradually", "became trainable"),
    Case("LearningRateVanished", "decays_per_batch", "decays_to_zero", "lr has vanished"),
    Case("LearningRateVanished", "decays_per_batch", "one_cycle"),
    Case("LearningRateVanished", "decays_per_batch", "warm_restarts"),
    Case("ScheduleMismatch", "oscillates_per_batch", "cosine_per_batch", "period of 20 steps"),
    Case("ScheduleMismatch", "oscillates_per_batch", "warm_restarts"),
    Case("ScheduleMismatch", "never_leaves_warm_up", "cosine_per_epoch", "OneCycleLR"),
    Case("StepsAlwaysSkipped", "skips_all_steps", "scaled_half", "24 steps of SGD in a row"),
    Case("AutocastUnused", "autocasts_doubles", "autocasts", "bfloat16"),
    Case("HalfWithoutScaler", "trains_half_weights", "trains_in_bfloat16", "4 of 4 parameters"),
    Case("HalfWithoutScaler", "autocasts_half_unscaled", "scaled_half", "autocast"),
    Case("GradientClipping", "clips_after_the_step", "clips_moderately", "at step 2"),
    Case("GradientClipping", "clips_after_the_step", "measures_its_norm"),
    Case("GradientClipping", "clips_to_nothing", "clips_moderately", "leaves"),
    Case("NothingLearned", "guesses", "starts_slowly", "4 classes"),
    Case("NothingLearned", "dies_at_its_output", "tiny", "all gradients are 0"),
    Case("ResumeIncomplete", "forgets_its_optimizer", "resumes", "the optimizer begins anew"),
    Case("ResumeIncomplete", "forgets_its_optimizer", "tunes_a_checkpoint"),
    Case("ResumeIncomplete", "begins_its_schedule_anew", "restores_its_best", "80 of its calls"),
    Case("LossJumpsBack", "forgets_its_model", "resumes", "last.pt was loaded at step 150"),
]

_GPU = "needs a GPU"
_TRACE = "needs a trace of kernels, which only a GPU gives"
_XGBOOST = "needs trees: XGBoost grows them in tests/rules/test_xgboost.py"
_RANKS = "needs several ranks: they train in test_ranks.py"
_NODES = "needs several nodes, or a clock that is set"
_HOURS = "needs minutes or hours of readings"
_REPORT = "never fires: it only hands over statistics"

NOT_HERE = {
    "OutlierNode": "needs four nodes and minutes of readings: tests/rules/system/test_outlier_node.py",
    "SharedMemoryTooSmall": "needs a small /dev/shm: tests/rules/reliability/test_shared_memory_too_small.py",
    "TimeLimit": "needs a job with a time limit: tests/rules/reliability/test_time_limit.py",
    "AllocatorFragmentation": _GPU,
    "BatchSize": _GPU,
    "CPUBottleneck": _GPU,
    "CPUContention": "needs a minute in which other programs crowd all cores",
    "CPUOversubscription": "needs a minute in which the job crowds all cores, which others have to share",
    "ClockSkew": _NODES,
    "CommNotOverlapped": _TRACE,
    "CpuBoundLaunch": _TRACE,
    "CreateXgboostReport": _REPORT,
    "DiskFull": "needs a disk that is nearly full",
    "EnergyWaste": _GPU,
    "FeatureImportanceOverweight": _XGBOOST,
    "GPUMemoryIncrease": _GPU,
    "GPUMemoryLeak": _GPU,
    "GradientsNotExchanged": _RANKS,
    "H2DBound": _GPU,
    "HardwareError": _GPU,
    "HostDeviceSyncStorm": _TRACE,
    "HostMemoryLeak": _HOURS,
    "LoadBalancing": _GPU,
    "LowGPUUtilization": _GPU,
    "RepeatedRecompilation": "needs JAX: tests/rules/framework/test_repeated_recompilation.py",
    "MemoryRunsOut": "needs memory that grows for some time: tests/jobs/test_memory_runs_out.py",
    "LowMFU": "needs a device whose peak is known",
    "MemoryImbalance": _GPU,
    "MixedPrecisionNotUsed": _TRACE,
    "NetworkBottleneck": _NODES,
    "OutOfMemoryRisk": "needs a machine whose memory is nearly full",
    "OverallFrameworkMetrics": _REPORT,
    "OverallSystemUsage": _REPORT,
    "ProfilerReport": _REPORT,
    "RankDataImbalance": _RANKS,
    "ReplicaDivergence": _RANKS,
    "ResourceGrowth": "needs a minute of readings: tests/jobs/test_changes.py",
    "StepTimeIncrease": "needs a change that lasts: tests/jobs/test_changes.py",
    "ReplicasDiffer": _RANKS,
    "StorageBottleneck": "needs storage under pressure",
    "StragglerRank": _RANKS,
    "ThermalThrottling": _GPU,
    "ThroughputRegression": _HOURS,
    "TreeDepth": _XGBOOST,
    "UnpinnedH2DCopy": _GPU,
    "UnusedGPU": _GPU,
}
"""Rules that no small training on a CPU makes speak, and why not; tests/rules shows them made-up data."""
