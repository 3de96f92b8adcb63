"""The central tests run again with XLA's optimizations, which other tests disable (conftest.py in the root)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# The optimized programs, which users run, are fused and vectorized, and they round differently.
CENTRAL_TESTS = (
    "test_cohort.py::test_losses_of_a_run_alone_equal_its_losses_in_a_cohort",
    "test_cohort.py::test_diverged_run_is_marked_and_does_not_affect_other_runs",
    "test_cohort.py::test_interrupted_training_resumes_with_equal_results",
    "test_step.py::test_updates_are_those_of_optax",
    "test_selection.py::test_the_kept_checkpoint_is_the_best_on_dev[test]",
    "test_cohort.py::test_buckets_that_share_a_program_give_the_same_results",
    "test_streams.py",
    "test_interop.py::test_logits_equal_those_of_the_authors_code[re2_31]",
)


@pytest.mark.slow
def test_central_tests_pass_with_xla_optimizations():
    # Under xdist, this process is a worker. The pytest that it starts must not run as a worker.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "XLA_FLAGS"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += [str(ROOT / "tests" / test_id) for test_id in CENTRAL_TESTS]
    done = subprocess.run(command, cwd=ROOT, env={**environment, "XLA_FLAGS": ""}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert " passed" in last and "skipped" not in last, last
