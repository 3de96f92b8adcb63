"""Faults of jobs of Slurm and of tasks of Ray."""

_SWEEP = "jaxmatch/sweep/"
_SLURM, _RAY, _STORE = _SWEEP + "on_slurm.py", _SWEEP + "on_ray.py", _SWEEP + "store.py"
_ON_SLURM, _ON_RAY = "tests/test_on_slurm.py::", "tests/test_on_ray.py::"
_STORED = [_ON_RAY + "test_a_store_replaces_the_shared_folder"]
_ASKED = [_ON_SLURM + "test_jobs_are_submitted_as_an_array_and_status_shows_their_states"]
_CPUS = [_ON_SLURM + "test_job_script_sets_the_number_of_cpus_and_the_platform"]
_OF_OPTIONS = [_ON_SLURM + "test_invalid_job_options_are_refused"]
_LIMIT = [_ON_SLURM + "test_a_job_at_its_time_limit_is_queued_again_if_it_makes_progress"]
_FORGOTTEN = [_ON_SLURM + "test_status_shows_what_slurm_has_forgotten_and_why_a_cohort_failed"]

MUTANTS = [
    (_SLURM, "job in states and states[job][0] not in OVER", "job in states", _ASKED),
    (_SLURM, "_is_alive(jobs.get(task.folder.name), states)", "False", _ASKED),
    (_SLURM, "state.lower(), reason or note", "state.lower(), note", _ASKED),
    (_SLURM, "elif folder.failure() is not None:", "elif False:", _FORGOTTEN),
    (_SLURM, 'elif job == "-":', "elif False:", _FORGOTTEN),
    (_SLURM, "round(1024 * options.memory_gb)", "round(1000 * options.memory_gb)", _ASKED),
    (_SLURM, '{"requeue": True, **options.sbatch}', "options.sbatch", _ASKED),
    (_SLURM, "options.at_once or MOST_IN_AN_ARRAY", "1", _ASKED),
    (_SLURM, "options.cpus or (None if options.gpus else cores())", "options.cpus or cores()", _CPUS),
    (_SLURM, "        if not options.gpus:\n            variables", "        if True:\n            variables", _CPUS),
    (_SLURM, "            array = new[start : start + MOST_IN_AN_ARRAY]", "            array = new", [_ON_SLURM + "test_many_jobs_are_split_into_several_arrays"]),
    (_SLURM, "data-{data.content}", "data-{data.fingerprint}", [_ON_SLURM + "test_models_that_know_other_characters_are_each_given_their_own_data"]),
    (_SLURM, "contextlib.redirect_stderr(io.StringIO())", "contextlib.nullcontext()", [_ON_SLURM + "test_a_refusal_is_one_line_and_the_same_command_submits_the_jobs"]),
    (_SLURM, "text.isprintable() and", "", _OF_OPTIONS),
    (_SLURM, 'and not set("%\\\\") & set(text)', "", _OF_OPTIONS),
    (_SLURM, 're.fullmatch("[A-Za-z][A-Za-z0-9_-]*", name) and', "", _OF_OPTIONS),
    (_SLURM, "if not _is_plain(str(workdir.absolute())):", "if False:", [_ON_SLURM + "test_folders_that_a_batch_script_cannot_name_are_refused"]),
    (_SLURM, "type(value) in kinds", "isinstance(value, kinds)", _OF_OPTIONS),
    (_SLURM, "if options.gpus and options.gpu_memory_gb is None:", "if False:", _OF_OPTIONS),
    (_SLURM, "if options.signal_seconds >= 60 * options.minutes:", "if options.signal_seconds >= 3600 * options.minutes:", _OF_OPTIONS),
    (_SLURM, "if newest == self.newest:", "if False:", _LIMIT),
    (_SLURM, "dataclasses.replace(self, newest=newest)", "self", _LIMIT),
    (_SLURM, "        STOP.set()\n        if", "        if", _LIMIT),
    (_RAY, "if done == total or time", "if True or time", [_ON_RAY + "test_records_and_display_equal_those_of_one_process"]),
    (_RAY, "                self.deaths = 0\n", "                pass\n", [_ON_RAY + "test_a_cohort_whose_worker_dies_is_resumed"]),
    (_RAY, "self.deaths == MOST_DEATHS", "self.deaths > MOST_DEATHS", [_ON_RAY + "test_a_cohort_whose_workers_keep_dying_fails_and_the_others_are_trained"]),
    (_RAY, "if (versions := worker.versions()) != self.versions:", "if False:", [_ON_RAY + "test_a_worker_that_cannot_train_ends_the_command"]),
    (_STORE, "paths.append(folder.checkpoints / str(checkpoints[-1]))", "pass", _STORED),
    (_STORE, "        if owner != name:\n", "        if False:\n", _STORED),
    (_RAY, "for cohort in stored - done:", "for cohort in ():", _STORED),
]
