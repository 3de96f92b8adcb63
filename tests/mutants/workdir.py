"""Faults of the folder of a sweep: writes, locks, cohorts, failures, checkpoints."""

_FILES, _CHECKPOINTS = "jaxmatch/files.py", "jaxmatch/training/checkpoints.py"
_WORKDIR, _EXECUTION, _RUNGS, _FAILURES, _LAUNCH = (
    "jaxmatch/workdir.py", *(f"jaxmatch/sweep/{name}.py" for name in ("execution", "rungs", "failures", "launch"))
)

MUTANTS = [
    (_FILES, "fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)", "pass", ["tests/test_files.py"]),
    (_FILES, "        os.stat(scratch)  # whoever removes it, does so under the lock\n", "", ["tests/test_files.py"]),
    (_FILES, "fcntl.flock(descriptor, fcntl.LOCK_EX)\n", "pass\n", ["tests/test_files.py"]),
    (_FILES, "os.fsencode(path.name)[:_MOST_BYTES]", "os.fsencode(path.name)", ["tests/test_files.py"]),
    (_FILES, "                _keep_owner_and_mode(file.fileno(), path)\n", "", ["tests/test_files.py"]),
    (_FILES, "            scratch.unlink(missing_ok=True)\n", "            pass\n", ["tests/test_files.py"]),
    (_FILES, "            place += name.removeprefix(str(scratch))\n", "", ["tests/test_files.py"]),
    (_WORKDIR, "        (path / \"DONE\").unlink(missing_ok=True)  # of", "        pass  # of", ["tests/test_workdir.py"]),
    (_WORKDIR, "for cohort, done in there if done for run", "for cohort, done in there for run", ["tests/test_workdir.py"]),
    (_WORKDIR, "                missing.difference_update(cohort.runs)\n", "", ["tests/test_workdir.py"]),
    (_WORKDIR, "                with self.lock().acquire(blocking=False):\n                    remove_half", "                if True:\n                    remove_half",
     ["tests/test_workdir.py"]),
    (_WORKDIR, "                    if self.done:\n                        shutil.rmtree", "                    if False:\n                        shutil.rmtree",
     ["tests/test_workdir.py"]),
    (_WORKDIR, "    if not os.access(there, access):\n", "    if False:\n", ["tests/test_workdir.py"]),
    (_WORKDIR, "        shutil.rmtree(self.checkpoints, ignore_errors=True)\n\n    def lock", "\n    def lock", ["tests/test_workdir.py"]),
    (_EXECUTION, "return folder.failure() not in (None, before.get(folder.name))", "return folder.failure() is not None",
     ["tests/test_failures.py"]),
    (_EXECUTION, "    folder.error.unlink(missing_ok=True)\n", "", ["tests/test_failures.py"]),
    (_EXECUTION, "for folder in claimed if wanted.issuperset(folder.runs)]", "for folder in claimed]", ["tests/test_launch.py"]),
    (_EXECUTION, "np.array_equal(there, vectors)", "there.shape == vectors.shape", ["tests/test_failures.py"]),
    (_EXECUTION, "        if self._stop.is_set():\n", "        if False:\n", ["tests/test_side_by_side.py"]),
    ("jaxmatch/sweep/side_by_side.py", "key=lambda number: -jobs[number].lasts", "key=lambda number: 0", ["tests/test_side_by_side.py"]),
    ("jaxmatch/sweep/side_by_side.py", "            stop.set()\n", "            pass\n", ["tests/test_side_by_side.py"]),
    (_FAILURES, "return isinstance(error, OSError) and error.errno is not None", "return False", ["tests/test_failures.py"]),
    (_LAUNCH, "    folder.check()\n", "", ["tests/test_failures.py"]),
    (_RUNGS, "_check_number(entry[\"samples\"], *(", "_check_number(*(", ["tests/test_rungs.py"]),
    (_RUNGS, "for setting, runs in left.items() if setting not in staying for run", "for setting, runs in left.items() if setting in staying for run",
     ["tests/test_rungs.py"]),
    (_CHECKPOINTS, "KEPT = 2", "KEPT = 3", ["tests/test_checkpoints.py"]),
    (_CHECKPOINTS, "sorted(self.manager.all_steps(), reverse=True)", "sorted(self.manager.all_steps())", ["tests/test_checkpoints.py"]),
    (_CHECKPOINTS, "            remove_half_written(self._folder)\n", "", ["tests/test_checkpoints.py"]),
    (_CHECKPOINTS, "before, logger.disabled = logger.disabled, True", "before = logger.disabled", ["tests/test_checkpoints.py"]),
    (_FILES, "_HERE, EXCHANGE = -100, 2", "_HERE, EXCHANGE = -100, -1", ["tests/test_files.py::test_a_folder_is_replaced_in_one_step"]),
]
