"""Faults of planning (grids, cohorts, memory, halving, tuning) and of the programs that predict."""

_PLAN, _SWEEP = (f"jaxmatch/sweep/{name}.py" for name in ("plan", "grid"))
_HALVING, _TUNING = "jaxmatch/sweep/halving.py", "jaxmatch/sweep/tuning.py"
_OPTUNA = "jaxmatch/sweep/optuna_trials.py"
_MINIMIZED = ["tests/test_optuna_trials.py::test_a_loss_is_minimized_and_a_setting_with_a_diverged_seed_has_no_mean"]
_ANEW = ["tests/test_floors_of_sweeps.py::test_floors_of_other_data_or_of_another_request_are_computed_anew"]
_WORDS = "jaxmatch/inference/cpu/product_table.py"

MUTANTS = [
    (_PLAN, "if (other := names.setdefault(name, run)) is not run:", "if other := None:", ["tests/test_launch_refusals.py"]),
    (_PLAN, "if other.variant != run.variant:", "if False:", ["tests/test_launch_refusals.py"]),
    (_PLAN, "range(0, len(runs), at_most)", "range(0, len(runs), len(runs))", ["tests/test_launch_plan.py", "tests/test_plan.py"]),
    ("jaxmatch/sweep/plan.py", "(scored if training[\"best_on_test\"] else 1)", "1", ["tests/test_plan.py"]),
    (_PLAN, "math.ceil(len(self.runs) / self.chunk_size) * self.chunk_size", "len(self.runs)", ["tests/test_plan.py"]),
    ("jaxmatch/sweep/changes.py", 'if key.startswith("model.") and "model.name" in grid:', "if False:",
     ["tests/test_changes.py::test_field_of_one_model_cannot_be_overridden_beside_an_axis_of_models"]),
    (_PLAN, "if not run.config.training.selection:", "if True:", ["tests/test_sweep_files.py::test_score_of_own_data_is_that_of_its_task"]),
    ("jaxmatch/data/catalog.py", "return CATALOG[name].selection if name in CATALOG else _SELECTION[task]", "return _SELECTION[task]",
     ["tests/test_launch.py::test_each_data_set_chooses_its_checkpoints_by_its_own_score"]),
    ("jaxmatch/sweep/changes.py", "for selection in dict.fromkeys(config.training.selection for config in configs)",
     "for selection in (configs[0].training.selection,)", ["tests/test_sweep_files.py::test_a_table_without_scores_shows_those_of_its_runs"]),
    ("jaxmatch/sweep/trainable.py", 'if training["selection"] in ADDED:', "if False:", ["tests/test_extend.py"]),
    ("jaxmatch/sweep/floors_kept.py", "tags=False, exact_match=False, characters=0)", "tags=False)",
     ["tests/test_floors_of_sweeps.py::test_models_with_other_features_of_words_share_floors"]),
    ("jaxmatch/training/chunks.py", "-(-runs // -(-runs // devices))", "min(runs, devices)", ["tests/test_device_jobs.py", "tests/test_plan.py"]),
    (_SWEEP, "f\"{_hash({'settings': self._identity_settings(), 'data': fingerprint})}-seed{self.seed}\"", "f\"{_hash({'settings': self._identity_settings()})}-seed{self.seed}\"",
     ["tests/test_sweep.py"]),
    (_SWEEP, "{**settings, **place}", "{**place, **settings}", ["tests/test_sweep.py"]),
    (_SWEEP, "if len(set(self.seeds)) < len(self.seeds):", "if False:", ["tests/test_sweep.py"]),
    (_HALVING, "sign = -1 if SCORES[score].higher_is_better else 1", "sign = 1 if SCORES[score].higher_is_better else -1", ["tests/test_halving.py"]),
    (_HALVING, "if entry[\"samples\"] <= samples]", "]", ["tests/test_halving.py"]),
    (_HALVING, "if diverged_at is not None and diverged_at < samples:", "if False:", ["tests/test_halving.py"]),
    (_TUNING, "each[0] if SCORES[name].higher_is_better else -each[0]", "each[0]", ["tests/test_tuning.py"]),
    (_TUNING, "first = max(choice.seeds) + 1", "first = min(choice.seeds)", ["tests/test_tuning.py"]),
    (_OPTUNA, '"maximize" if higher_is_better else "minimize"', '"maximize"', _MINIMIZED),
    (_OPTUNA, "key: None if None in values else statistics.fmean(values) for",
     "key: statistics.fmean([value for value in values if value is not None] or [0.0]) for", _MINIMIZED),
    ("jaxmatch/sweep/floors_kept.py", 'kept["fingerprint"] == cohort.data.fingerprint and ', "", _ANEW),
    ("jaxmatch/sweep/floors_kept.py", ' and kept.get("asked") == requested:', ":", _ANEW),
    (_OPTUNA, "self._study.enqueue_trial(shape)", "pass", ["tests/test_optuna_trials.py"]),
    (_OPTUNA, "TPESampler(seed=place)", "TPESampler()", ["tests/test_optuna_trials.py"]),
    (_OPTUNA, "if trial.state.name == \"RUNNING\" and not self._whole(trial):", "if False:", ["tests/test_optuna_trials.py"]),
    ("jaxmatch/sweep/device_jobs.py", "waiting[:0] = range", "waiting[len(waiting) :] = range", ["tests/test_device_jobs.py"]),
    (_WORDS, "return [self.products[0].attended, *own] if tokens < dimensions else []",
     "return [self.products[0].attended, *own]", ["tests/test_product_table.py"]),
]
