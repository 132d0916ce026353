"""Which test shows that a defect of the SageMaker Debugger is not ours, and which a case of its own tests.

Texts in place of tests say why there is none.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CAPTURE = "recorder/tensors/test_capture.py"
CASES = "recorder/tensors/test_conformance.py"
OWN = "recorder/tensors/test_explicit.py"
ASKED = "recorder/tensors/test_requests.py"
WRITING = "recorder/tensors/test_writing.py"
JOBS = "jobs/test_tensors.py"
TRIAL = "tensors/test_smdebug_trial.py"
STEPS = "tensors/test_completeness.py"
REDUCED = "tensors/test_reductions.py"
RAW = "tensors/test_raw.py"
IMPORTED = "importers/sagemaker/test_smdebug_tensors.py"
FOLDERS = "importers/sagemaker/test_smdebug_folders.py"
BOARD = "report/test_tensorboard.py"
GOLDEN = "tensors/test_golden_run.py"

NO_SHAP = "SHAP values of a booster are not computed or saved"

DEFECTS: dict[str, str | list[str]] = {
    "D01 a finished job's place is taken": ["cli/test_run_refusals.py::test_job_name_that_is_taken"],
    "D02 scalars late, thinned, in the wrong mode": [f"{OWN}::test_modes_and_threads"],
    "D03 tensors of scripts lost": [
        f"{OWN}::test_every_tensor_is_kept_at_its_step_whatever_else_is_due",
        f"{OWN}::test_a_schedule_that_describes_it_counts",
    ],
    "D04 micro-batches are steps": [
        f"{CAPTURE}::test_accumulation_is_one_step_and_recomputation_is_recorded_once"
    ],
    "D05 gradients in evaluation": [f"{CASES}::test_nothing_of_the_update_is_saved_in_evaluation"],
    "D06 mappings and keywords lost": [f"{CAPTURE}::test_mappings_keywords_and_evaluation"],
    "D07 bfloat16 stops the training": [
        "recorder/tensors/test_statistics.py::test_statistics_agree_with_numpy",
        f"{WRITING}::test_every_type_is_saved_whole",
        f"{RAW}::test_every_bit_pattern_of_narrow_types",
    ],
    "D08 sharded models": [f"{JOBS}::test_shards_of_a_model_join_to_the_whole"],
    "D09 compiled models": [f"{JOBS}::test_compiled_models_keep_their_names"],
    "D10 several models, recomputation": [
        f"{CASES}::test_two_models_that_train_each_other_share_the_steps",
        f"{CAPTURE}::test_accumulation_is_one_step_and_recomputation_is_recorded_once",
    ],
    "D11 gradients scaled, clipped, local": [
        "recorder/tensors/test_default_statistics.py::test_gradients_are_true_under_a_scaler_and_before_clipping",
        f"{JOBS}::test_gradients_of_ranks_in_parallel_are_reduced",
    ],
    "D12 SHAP signed, copied for each feature, features lost": NO_SHAP,
    "D13 custom XGBoost collections save nothing": [
        "jobs/test_boosting.py::test_a_regular_expression_chooses_importances"
    ],
    "D14 words of the JSON configuration": [
        f"{JOBS}::test_a_configuration_of_sagemakers_hook",
        "cli/test_saving.py::test_words_that_the_reference_documents_and_refuses",
    ],
    "D15 the end told by any rank": [
        "agent/drain/test_tensors.py::test_rows_values_and_whole_tensors_arrive",
        f"{STEPS}::test_states_of_steps",
    ],
    "D16 a TensorBoard file for each step, histograms with NaN dropped": [
        f"{BOARD}::test_scalars_and_histograms_by_mode"
    ],
    "D17 an end at step 0": [f"{ASKED}::test_a_schedule_is_due_as_the_reference_is"],
    "D18 a module's name matches others'": [f"{CASES}::test_a_module_is_chosen_without_those_of_like_names"],
    "D19 std of a sample or of the population": [f"{REDUCED}::test_norms_are_of_the_flattened_tensor"],
    "D20 norms of matrices": [f"{REDUCED}::test_statistics_and_elements_give_the_same_reductions"],
    "D21 shape and value exclude each other": [f"{TRIAL}::test_reductions_shapes_and_values"],
    "D22 reductions of whole numbers stop the training": [
        "recorder/tensors/test_statistics.py::test_statistics_agree_with_numpy",
        f"{REDUCED}::test_statistics_and_elements_give_the_same_reductions",
    ],
    "D23 a wrong path blocks": [f"{TRIAL}::test_a_wrong_path_is_answered_at_once"],
    "D24 KeyError, and a collection made by asking": [
        f"{TRIAL}::test_an_unknown_collection_is_not_made",
        f"{TRIAL}::test_what_was_never_seen_is_no_key_error",
    ],
    "D25 refreshing stays off": [
        f"{STEPS}::test_waiting_ends_when_the_step_comes_and_reading_goes_on",
        f"{STEPS}::test_frozen_comes_back_after_an_error",
        f"{TRIAL}::test_no_refresh",
    ],
    "D26 steps of several workers and modes": [
        f"{TRIAL}::test_steps_of_a_tensor_in_several_modes_and_of_several_workers"
    ],
    "D27 no shapes()": [f"{TRIAL}::test_reductions_shapes_and_values"],
    "D28 inputs and labels of another mode": [f"{TRIAL}::test_inputs_and_labels_of_a_mode"],
    "D29 integers read as others": [f"{RAW}::test_every_type_comes_back_as_it_was"],
    "D30 no checksum": [f"{RAW}::test_bytes_that_changed_are_not_handed_out"],
    "D31 a listing before every value": ["tensors/test_object_store.py::test_values_need_no_listing"],
    "D32 collections frozen after the first step": [
        "tensors/test_tensors.py::test_collections_that_come_later_are_seen",
        f"{WRITING}::test_collections_may_change_while_files_are_written",
    ],
    "D33 a dead job looks slow": [f"{STEPS}::test_a_dead_job_is_told_from_a_slow_one"],
    "D34 steps that are not due cost": [
        f"{CAPTURE}::test_steps_that_are_not_due_are_left_alone",
        "recorder/tensors/test_device.py::test_nothing_waits_and_the_numbers_are_those_of_the_host",
    ],
    "D35 buffers": [f"{CASES}::test_buffers_are_tensors_too"],
}

PORTABLE: dict[str, str | list[str]] = {
    # The reference's core.
    "core/test_collections": [f"{CASES}::test_collections_survive_being_written"],
    "core/test_save_config": [
        f"{ASKED}::test_a_schedule_is_due_as_the_reference_is",
        f"{CASES}::test_collections_survive_being_written",
    ],
    "core/test_reduction_config": [f"{CASES}::test_collections_survive_being_written"],
    "core/test_modes": [f"{TRIAL}::test_modes_while_the_job_grows"],
    "core/test_index": [f"{WRITING}::test_every_type_is_saved_whole"],
    "core/test_index_utils": [f"{IMPORTED}::test_damaged_files_cost_only_themselves"],
    "core/test_index_reader": [f"{FOLDERS}::test_a_step_whose_event_file_is_gone_was_saved"],
    "core/test_numpy::test_local": [f"{RAW}::test_every_type_comes_back_as_it_was"],
    "core/test_numpy::test_string": [f"{FOLDERS}::test_texts_are_read"],
    "core/test_training_end": [f"{STEPS}::test_states_of_steps"],
    "core/test_paths::test_whitespace": [f"{TRIAL}::test_blanks_around_a_path"],
    "core/test_paths::test_outdir": ["cli/test_run_refusals.py::test_job_name_that_is_taken"],
    "core/test_paths::test_temp_paths": [f"{WRITING}::test_a_file_that_cannot_be_written_leaves_nothing"],
    "core/test_make_numpy_array": [f"{OWN}::test_every_tensor_is_kept_at_its_step_whatever_else_is_due"],
    "core/test_error_handling_agent": [
        "recorder/test_guard.py::test_collector_that_keeps_failing_is_switched_off"
    ],
    "core/test_logger": [f"{CAPTURE}::test_a_regex_that_matches_nothing_is_said_once"],
    "core/test_state_store": "a run that is started again is a job of its own; no checkpoint is watched",
    "core/test_utils::test_s3": ["store/test_job.py::test_the_store_to_use"],
    "core/test_utils::test_is_first_process": ["store/test_job.py::test_only_one_of_many_gets_a_name"],
    "core/test_utils::test_json_params": [f"{JOBS}::test_a_configuration_of_sagemakers_hook"],
    "core/test_utils::test_is_rule_signalled": "rules run beside the job, in no container that is signalled",
    # Reading.
    "trials/test_local": [f"{TRIAL}::test_local"],
    "trials/test_create": [f"{TRIAL}::test_a_range_of_steps"],
    "trials/test_refresh": [f"{TRIAL}::test_refresh", f"{TRIAL}::test_no_refresh"],
    "trials/test_tensors_api": [f"{TRIAL}::test_names_by_regex_and_collection"],
    "trials/test_modes": [f"{TRIAL}::test_modes_while_the_job_grows"],
    "trials/test_load_collections": [
        f"{STEPS}::test_many_ranks",
        f"{IMPORTED}::test_collections_of_some_workers_are_missing",
    ],
    "exceptions/test_exceptions": ["tensors/test_tensors.py::test_skipped_steps_while_the_job_grows"],
    "rules/test_rule_no_refresh": ["compat/test_smdebug_rules.py::test_live_it_judges_each_step_once"],
    # has_passed_step.
    "scenarios of one to three workers": [
        f"{STEPS}::test_states_of_steps",
        f"{STEPS}::test_waiting_for_steps",
    ],
    "scenarios of two modes": [f"{STEPS}::test_two_modes"],
    "scenario of the window": [f"{STEPS}::test_steps_that_wait_too_long_are_given_up"],
    "scenario of partial tensors": [f"{STEPS}::test_a_tensor_that_some_ranks_have_not_written"],
    # PyTorch.
    "pytorch/test_simple_write": [
        f"{CAPTURE}::test_values_are_those_of_the_training",
        f"{CAPTURE}::test_names_and_steps_of_everything",
    ],
    "pytorch/test_multi_collection_json": [f"{CASES}::test_collections_with_schedules_of_their_own"],
    "pytorch/test_loss::module": [f"{CASES}::test_a_loss_module_is_one_tensor_and_falls"],
    "pytorch/test_loss::functional": [f"{CASES}::test_a_functional_loss_has_its_labels"],
    "pytorch/test_modes": [f"{CASES}::test_one_mode_alone"],
    "pytorch/test_reduce_config": [
        f"{CASES}::test_collections_with_schedules_of_their_own",
        f"{JOBS}::test_a_configuration_of_sagemakers_hook",
    ],
    "pytorch/test_save_shapes": [f"{CASES}::test_shapes_alone"],
    "pytorch/test_save_custom_tensor": [f"{OWN}::test_every_tensor_is_kept_at_its_step_whatever_else_is_due"],
    "pytorch/test_no_name_clash": [f"{CASES}::test_a_module_that_is_called_again_has_names_of_its_own"],
    "pytorch/test_collection_add": [f"{CASES}::test_a_module_is_chosen_without_those_of_like_names"],
    "pytorch/test_hook_save_scalar": [
        f"{OWN}::test_modes_and_threads",
        f"{BOARD}::test_scalars_and_histograms_by_mode",
    ],
    "pytorch/test_hook_paths": "TensorBoard's files are exported on request, to a place named then",
    "pytorch/test_distributed_training": [f"{JOBS}::test_gradients_of_ranks_in_parallel_are_reduced"],
    "pytorch/test_data_parallel": [f"{CASES}::test_names_are_those_of_the_model_that_is_wrapped"],
    "pytorch/test_get_hook": "there is no hook to get",
    # The golden run: written by the reference and read here, and made up in our own form.
    "golden run": [
        f"{IMPORTED}::test_the_golden_run",
        f"{IMPORTED}::test_reductions_are_those_that_smdebug_reads",
        f"{GOLDEN}::test_steps_of_modes",
        f"{GOLDEN}::test_names_and_collections",
        f"{GOLDEN}::test_steps_and_shapes_of_tensors",
        f"{CAPTURE}::test_names_and_steps_of_everything",
    ],
}
_SHOWN = [pytest.param(shown, id=case) for case, shown in (DEFECTS | PORTABLE).items() if shown != NO_SHAP]


@cache
def _tests(path: str) -> set[str]:
    tree = ast.parse((TESTS / path).read_text())
    return {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}


@pytest.mark.parametrize("shown", _SHOWN)
def test_it_is_shown(shown):
    for one in [] if isinstance(shown, str) else shown:
        path, _, name = one.partition("::")
        assert name in _tests(path), one


def test_every_defect_is_there():
    assert [name.split()[0] for name in DEFECTS] == [f"D{number:02}" for number in range(1, 36)]


def test_shap_values_are_not_saved():
    # Whoever saves them shows D12 as well.
    source = TESTS.parent / "src/holter/recorder/frameworks/trees/tensors.py"
    assert "pred_contribs" not in source.read_text()
