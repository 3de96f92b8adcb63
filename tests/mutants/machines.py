"""Faults of jobs of Slurm, and of waiting for them."""

_SWEEP = "jaxmatch/sweep/"
_JOBS, _ON, _OPTIONS = _SWEEP + "slurm_jobs.py", _SWEEP + "on_slurm.py", _SWEEP + "slurm_options.py"
_TRAINING, _WAITING = _SWEEP + "slurm_training.py", _SWEEP + "slurm_waiting.py"
_FAILURES, _RAY = _SWEEP + "failures.py", _SWEEP + "ray_cluster.py"
_ADDRESS = ["tests/test_on_ray.py::test_bad_ray_address_is_refused_or_overridden"]
_ON_SLURM, _SUBMISSION = "tests/test_on_slurm.py::", "tests/test_slurm_submission.py::"
_ASKED = [_SUBMISSION + "test_jobs_are_submitted_as_an_array_and_status_shows_their_states"]
_OF_OPTIONS = [_SUBMISSION + "test_invalid_job_options_are_refused"]
_NEVER = [_ON_SLURM + "test_a_job_ended_three_times_without_a_new_checkpoint_fails"]
_WAITS = "tests/test_slurm_waiting.py::"
_LOST = [_WAITS + "test_a_lost_job_is_resubmitted_until_its_cohort_has_failed"]

MUTANTS = [
    (_JOBS, '"queued" if is_queued(living[job]) else "running"', '"running" if is_queued(living[job]) else "queued"', _ASKED),
    (_JOBS, "if cohort not in new.values()}", "if True}", _ASKED),
    (_JOBS, "for job in jobs.cohorts if job in states}", "for job in states}", _ASKED),
    (_JOBS, 'partition(": error: ")[2]', 'partition(": error: ")[0]', [_SUBMISSION + "test_slurm_refusal_is_reported_before_anything_is_written"]),
    (_ON, "(task for task in tasks if task.folder.name not in job_of)", "(task for task in tasks)", _ASKED),
    (_ON, 'variables["NPROC"] = str(self._cpus())', 'variables["NPROC"] = "1"', _ASKED),
    (_ON, "if self._options.cpus or not self._options.gpus:", "if True:", [_SUBMISSION + "test_job_script_exports_the_number_of_cpus"]),
    (_ON, "options.at_once or MOST_IN_AN_ARRAY", "1", _ASKED),
    (_ON, "options.at_once or MOST_IN_AN_ARRAY", "options.at_once or 256", [_SUBMISSION + "test_many_jobs_are_split_into_several_arrays"]),
    (_ON, "remaining, most = list(tasks), MOST_IN_AN_ARRAY", "remaining, most = list(tasks), 9999", [_SUBMISSION + "test_many_jobs_are_split_into_several_arrays"]),
    (_ON, "most = len(trainings) // 2", "raise", [_SUBMISSION + "test_submission_stops_at_the_job_limit_and_saves_the_submitted_jobs"]),
    (_ON, "data-{data.content}", "data-{data.fingerprint}", [_ON_SLURM + "test_models_that_know_other_characters_are_each_given_their_own_data"]),
    (_ON, "                    slurm_jobs.add_jobs(workdir, self._local, cohort_of)\n", "", [_SUBMISSION + "test_many_jobs_are_split_into_several_arrays"]),
    (_JOBS, 'r"Submit\\w*Limit|', 'r"SubmitJobLimit|', [_SUBMISSION + "test_submission_stops_at_the_job_limit_and_saves_the_submitted_jobs"]),
    (_ON, 'round(1024 * options.memory_gb)', 'round(1000 * options.memory_gb)', _ASKED),
    (_ON, 'slurm_jobs.run("sbatch", "--test-only", text=text)', "pass", [_SUBMISSION + "test_slurm_refusal_is_reported_before_anything_is_written"]),
    (_OPTIONS, "0 <= value < float", "-1 <= value < float", _OF_OPTIONS),
    (_OPTIONS, "and not isinstance(value, bool)", "", _OF_OPTIONS),
    (_OPTIONS, "if options.gpus and options.gpu_memory_gb is None:", "if False:", _OF_OPTIONS),
    (_OPTIONS, "if options.signal_seconds >= 60 * options.minutes:", "if options.signal_seconds >= 3600 * options.minutes:", _OF_OPTIONS),
    (_TRAINING, "if newest > self.newest or", "if newest >= self.newest or", _NEVER),
    (_TRAINING, ") < MOST_DEATHS:", ") <= MOST_DEATHS:", _NEVER),
    (_FAILURES, "deaths = 1 if newest > newest_before else before + 1", "deaths = before + 1", _LOST),
    (_FAILURES, "if deaths >= MOST_DEATHS:", "if False:", ["tests/test_slurm_waiting.py::test_deaths_are_counted_per_cohort_and_newest_checkpoint"]),
    (_WAITING, "return ended if deaths >= MOST_DEATHS else", "return ended if deaths > MOST_DEATHS else", _LOST),
    (_JOBS, 'startswith("OUT_OF_ME")', 'startswith("OOM")', [_SUBMISSION + "test_stopped_and_paused_jobs_have_explanatory_notes"]),
    (_WAITING, "if slurm_jobs.out_of_memory(state):", "if False:", [_WAITS + "test_a_job_that_ran_out_of_memory_is_not_resubmitted"]),
    (_WAITING, 'if state.startswith("CANCELLED")', "if False", [_WAITS + "test_a_cancelled_job_is_not_resubmitted"]),
    (_WAITING, "max(0, self._at_once - len(self._running))", "self._at_once", [_WAITS + "test_the_number_of_concurrent_jobs_is_limited"]),
    (_WAITING, " or slurm_jobs.is_held(self._workdir, folder.name)", "", [_WAITS + "test_a_cohort_that_another_launcher_trains_is_left_to_it"]),
    (_WAITING, "                    waiting[:0] = more()\n", "                    more()\n", [_WAITS + "test_further_cohorts_are_submitted_as_they_become_ready"]),
    (_RAY, 'if from_variable == "auto":', "if False:", _ADDRESS),
    (_RAY, "of_variable=bool(from_variable) and not address", "of_variable=False", _ADDRESS),
    (_RAY, "except subprocess.TimeoutExpired:", "except ZeroDivisionError:", ["tests/test_on_ray.py::test_a_server_that_does_not_reply_is_refused"]),
]
