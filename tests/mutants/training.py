"""Single faults in jaxmatch/training: (file, before, after, tests that catch it)."""

_COHORT, _STEP, _LOCKSTEP = (f"jaxmatch/training/{name}.py" for name in ("cohort", "step", "lockstep"))
_SELECTION, _RESUMING, _ROOM = (f"jaxmatch/training/{name}.py" for name in ("selection", "resuming", "room"))
_PROGRESS, _SCHEDULE, _KEYS = (f"jaxmatch/training/{name}.py" for name in ("progress", "schedule", "keys"))
_KEPT = ["tests/test_selection.py::test_the_kept_checkpoint_is_the_best_on_dev"]
_SPLITS = ["tests/test_selection.py::test_dev_and_test_are_not_exchanged"]
_OPTAX = ["tests/test_optax_updates.py::test_updates_are_those_of_optax"]
_DROPOUT = ["tests/test_streams.py::test_dropout_differs_between_seeds_and_between_steps"]
_START = ["tests/test_streams.py::test_every_run_starts_from_parameters_of_its_own_seed"]
_BATCHES = ["tests/test_streams.py::test_batches_differ_between_seeds_and_between_epochs"]
_SCHEDULES = ["tests/test_schedule.py"]

MUTANTS = [
    # Pure Python or nearly so.
    (_KEYS, '{"parameters": 0, "dropout": 1}', '{"parameters": 0, "dropout": 0}',
     ["tests/test_streams.py::test_every_purpose_seed_and_step_has_a_key_of_its_own"]),
    (_SCHEDULE, "jnp.maximum(h.learning_rate_floor, h.learning_rate * h.decay_rate**periods)",
     "h.learning_rate * h.decay_rate**periods", _SCHEDULES),
    ("jaxmatch/training/restacking.py", "pairs * given_up >=", "pairs >=",
     ["tests/test_cohort.py::test_a_smaller_program_pays_always_on_a_cpu_and_on_a_gpu_for_much_that_is_left"]),
    ("jaxmatch/training/restacking.py", 'platform == "cpu" or', "",
     ["tests/test_cohort.py::test_a_smaller_program_pays_always_on_a_cpu_and_on_a_gpu_for_much_that_is_left"]),
    (_SCHEDULE, "jnp.where(h.decay_samples > 0, jnp.maximum(periods, 0), 0)", "jnp.maximum(periods, 0)", _SCHEDULES),
    ("jaxmatch/models/decatt.py", "jnp.sqrt(jnp.maximum(squares, 1e-24))", "jnp.maximum(jnp.sqrt(squares), 1e-12)",
     ["tests/test_trained_words.py::test_they_learn_where_a_model_divides_them_by_their_length"]),
    (_SCHEDULE, "return jnp.where(seen < h.warmup_samples, rising, falling)", "return falling", _SCHEDULES),
    (_SCHEDULE, "jnp.floor((seen - h.warmup_samples) /", "jnp.floor(seen /", _SCHEDULES),
    (_SCHEDULE, "falling = jnp.minimum(falling, h.learning_rate)", "falling = falling * 1", _SCHEDULES),
    ("jaxmatch/training/checkpoints.py", "KEPT = 2", "KEPT = 1", ["tests/test_checkpoints.py::test_only_two_are_kept"]),
    ("jaxmatch/training/checkpoints.py", 'if sealed["digest"] != digest(arrays, sealed["notes"]):', "if False:",
     ["tests/test_checkpoints.py::test_what_could_not_be_read_is_there_until_another_is_written"]),
    (_LOCKSTEP, "self.batches.rows(int(self.seeds[run]), number)", "self.batches.rows(0, number)", _BATCHES),
    (_LOCKSTEP, "self.batches.rows(int(self.seeds[run]), number)", "self.batches.rows(int(self.seeds[run]), 0)", _BATCHES),
    ("jaxmatch/training/losses.py", "jnp.square(outputs[:, 0] - labels)", "jnp.abs(outputs[:, 0] - labels)",
     ["tests/test_losses.py"]),
    (_STEP, 'keys.run_key(seed, "parameters")', 'keys.run_key(0, "parameters")', _START),
    (_LOCKSTEP, "return self.seeds[runs], jax.tree", "return self.seeds[runs * 0], jax.tree", _START),
    # The same compiled programs.
    (_SELECTION, "jnp.where(improved, runs, best.shape[0])", "jnp.where(improved, runs, runs)", _KEPT),
    (_SELECTION, 'self._outputs("dev", state.parameters, ', 'self._outputs("test", state.parameters, ', _KEPT),
    (_SELECTION, 'self._scores("dev", dev_outputs[learning])', 'self._scores("test", dev_outputs[learning])', _SPLITS),
    (_SELECTION, 'self._scores("test", outputs[tested])', 'self._scores("dev", outputs[tested])', _SPLITS),
    (_SELECTION, "return state._replace(loss_sum=zero, loss_weight=jnp.zeros_like(zero)), best", "return state, best",
     ["tests/test_selection.py::test_train_loss_is_the_mean_since_the_last_evaluation"]),
    (_SELECTION, "self._lockstep.active = self._progress.active\n        return best, shown", "return best, shown",
     ["tests/test_selection.py::test_a_stopped_run_learns_no_more"]),
    (_RESUMING, 'progress.epoch, progress.index = notes["epoch"], notes["index"]', 'progress.epoch, progress.index = notes["epoch"], 0',
     ["tests/test_cohort.py::test_interrupted_is_uninterrupted"]),
    (_PROGRESS, 'self.stopped = entry["samples"] > minimum_samples', "self.stopped = True",
     ["tests/test_selection.py::test_no_run_stops_before_the_least_it_has_to_see"]),
    (_PROGRESS, ">= patience_samples:", "> patience_samples:",
     ["tests/test_selection.py::test_patience_counts_what_dev_brings"]),
    (_PROGRESS, "sign = 1 if higher_is_better else -1", "sign = 1", _KEPT),
    (_PROGRESS, "sign * score > sign * best", "sign * score < sign * best", _KEPT),
    ("jaxmatch/training/evaluation.py", "outputs[..., np.arange(len(labels)), labels]", "outputs[..., 0]", _KEPT),
    ("jaxmatch/training/evaluation.py", "outputs[:, rows] = part[:, : len(rows)]", "outputs[:, : len(rows)] = part[:, : len(rows)]",
     ["tests/test_cohort.py::test_buckets_do_not_change_a_score"]),
    (_LOCKSTEP, "np.where(np.arange(size) < len(kept), self.slots[chosen], -1)",
     "np.where(np.arange(size) < len(kept), np.arange(size), -1)",
     ["tests/test_cohort.py::test_a_rung_that_leaves_few_shrinks_the_program_at_once"]),
    (_COHORT, "            part.begin()\n", "            pass\n", ["tests/test_room.py::test_without_a_checkpoint_training_begins_again"]),
    (_RESUMING, 'notes["ran_out"] =', 'notes["ran_nowhere"] =', ["tests/test_room.py::test_what_went_on_with_fewer_is_resumed_bit_for_bit"]),
    (_ROOM, "if event.device == self.device_kind:", "if True:", ["tests/test_room.py::test_a_device_of_another_kind_is_not_held_to_it"]),
    (_ROOM, "limited.limit = fewer\n", "limited.limit = 1\n", ["tests/test_room.py::test_at_the_first_step_fewer_are_computed_at_once"]),
    (_ROOM, "if needed is None or needed <= free:", "if True:",
     ["tests/test_room.py::test_how_many_are_computed_at_once_follows_from_the_compiled_programs"]),
    (_ROOM, "not isinstance(error, jax.errors.JaxRuntimeError) or any", "any",
     ["tests/test_room.py::test_another_error_is_none_of_memory"]),
    (_ROOM, "any(part in text for part in _OF_A_CORE)", "False",
     ["tests/test_room.py::test_fewer_replicas_help_where_the_memory_of_the_device_ran_out"]),
    ("jaxmatch/sweep/launcher_files.py", ' and not key.endswith("_samples")', "",
     ["tests/test_comparison.py::test_a_model_keeps_its_optimizer_on_a_data_set_that_its_file_does_not_have"]),
    # Other programs.
    (_STEP, "alive = active & (state.diverged_at < 0)", "alive = state.diverged_at < 0",
     ["tests/test_selection.py::test_what_is_not_active_keeps_its_state_bit_for_bit"]),
    (_STEP, 'keys.step_key(seed, "dropout", state.step)', 'keys.run_key(seed, "dropout")', _DROPOUT),
    (_STEP, 'keys.step_key(seed, "dropout", state.step)', 'keys.step_key(seed * 0, "dropout", state.step)', _DROPOUT),
    (_STEP, 'keys.step_key(seed, "dropout", state.step)', 'keys.step_key(seed, "parameters", state.step)',
     ["tests/test_streams.py::test_a_run_draws_what_it_has_always_drawn"]),
    (_STEP, "schedule.learning_rate(state.samples, hyperparameters)",
     "schedule.learning_rate(state.samples + count.astype(jnp.int32), hyperparameters)", _OPTAX),
    (_STEP, "(losses(task, outputs, labels, hyperparameters.added) * weights).sum() / count", "losses(task, outputs, labels, hyperparameters.added).sum() / count", _OPTAX),
    (_STEP, "jnp.where(h.gradient_clip > 0, h.gradient_clip, jnp.inf)", "jnp.inf", _OPTAX),
    (_STEP, "optax.add_decayed_weights(h.weight_decay)", "optax.add_decayed_weights(0.0)", _OPTAX),
    (_STEP, "state.samples + count.astype(jnp.int32)", "state.samples + rows.shape[0]", _OPTAX),
    (_STEP, "jnp.where(alive & finite, new, old)", "jnp.where(alive, new, old)",
     ["tests/test_cohort.py::test_a_step_that_diverges_changes_nothing"]),
]
