"""Faults of jobs of Slurm and of tasks of Ray."""

_SWEEP = "jaxmatch/sweep/"
_SLURM, _RAY = _SWEEP + "on_slurm.py", _SWEEP + "on_ray.py"
_ON_SLURM, _ON_RAY = "tests/test_on_slurm.py::", "tests/test_on_ray.py::"
_STORED = [_ON_RAY + "test_a_store_replaces_the_shared_folder"]
_ASKED = [_ON_SLURM + "test_jobs_are_submitted_as_an_array_and_status_shows_their_states"]
_EQUAL = [_ON_SLURM + "test_a_job_trains_its_cohort_and_its_records_equal_those_of_one_process"]
_CPUS = [_ON_SLURM + "test_job_script_sets_the_number_of_cpus_and_the_platform"]
_OF_OPTIONS = [_ON_SLURM + "test_invalid_job_options_are_refused"]
_LIMIT = [_ON_SLURM + "test_a_job_at_its_time_limit_is_queued_again_if_it_makes_progress"]

MUTANTS = [
    (_SLURM, "in _states().items() if state not in OVER", "in _states().items()", _ASKED),
    (_SLURM, "elif state in {", "elif state not in {", _ASKED),
    ("jaxmatch/cli/train.py", "    if folder.missing:\n", "    if False:\n", _EQUAL),
    (_SLURM, "if jobs.get(each.name) not in living", "", _ASKED),
    (_SLURM, "round(1024 * options.memory_gb)", "round(1000 * options.memory_gb)", _ASKED),
    (_SLURM, '{"requeue": True, **options.sbatch}', "options.sbatch", _ASKED),
    (_SLURM, "options.at_once or MOST_IN_AN_ARRAY", "1", _ASKED),
    (_SLURM, "options.cpus or (None if options.gpus else cores())", "options.cpus or cores()", _CPUS),
    (_SLURM, "None if options.gpus else \"cpu\"", "\"cpu\"", _CPUS),
    (_SLURM, "            array = new[start : start + MOST_IN_AN_ARRAY]", "            array = new", [_ON_SLURM + "test_many_jobs_are_split_into_several_arrays"]),
    (_SLURM, "data-{data.content}", "data-{data.fingerprint}", [_ON_SLURM + "test_models_that_know_other_characters_are_each_given_their_own_data"]),
    (_SLURM, "contextlib.redirect_stderr(io.StringIO())", "contextlib.nullcontext()", [_ON_SLURM + "test_a_refusal_is_one_line_and_the_same_command_submits_the_jobs"]),
    (_SLURM, "type(value) not in kinds", "not isinstance(value, kinds)", _OF_OPTIONS),
    (_SLURM, "text.isprintable() and", "", _OF_OPTIONS),
    (_SLURM, "if not is_plain(str(workdir.absolute())):", "if False:", [_ON_SLURM + "test_folders_that_a_batch_script_cannot_name_are_refused"]),
    (_SLURM, "if options.gpus and options.gpu_memory_gb is None:", "if False:", _OF_OPTIONS),
    (_SLURM, "if options.signal_seconds >= 60 * options.minutes:", "if options.signal_seconds >= 3600 * options.minutes:", _OF_OPTIONS),
    (_SLURM, "if newest == self.newest:", "if False:", _LIMIT),
    (_SLURM, "dataclasses.replace(self, newest=newest)", "self", _LIMIT),
    (_SLURM, "        STOP.set()\n        if", "        if", _LIMIT),
    (_RAY, "                self.deaths = 0\n", "                pass\n", [_ON_RAY + "test_a_cohort_whose_worker_dies_is_resumed"]),
    (_RAY, "self.deaths == MOST_DEATHS", "self.deaths > MOST_DEATHS", [_ON_RAY + "test_a_cohort_whose_workers_keep_dying_fails_and_the_others_are_trained"]),
    ("jaxmatch/sweep/provenance.py", "        if version != expected[name]:", "        if False:", [_ON_RAY + "test_a_worker_that_cannot_train_ends_the_command"]),
    (_RAY, "paths.append(folder.checkpoints / str(newest))", "pass", _STORED),
    (_RAY, "for cohort in store.names() - {each.name for each in Workdir(workdir).cohorts() if each.done}:", "for cohort in ():", _STORED),
    (_SWEEP + "launch.py", "        if data.content != content:\n            raise", "        if False:\n            raise", ["tests/test_hosts.py::test_an_error_on_one_host_ends_all"]),
]
