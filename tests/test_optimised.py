"""The central claims once more with XLA's optimizations, which other tests switch off (conftest.py in the root)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Users run other programs than the tests do: fused, vectorized, with other rounding.
CLAIMS = (
    "test_cohort.py::test_companions_do_not_matter",
    "test_cohort.py::test_a_diverged_run_is_marked_and_leaves_its_neighbours_alone",
    "test_cohort.py::test_interrupted_is_uninterrupted[7]",
    "test_optax_updates.py::test_updates_are_those_of_optax",
    "test_selection.py::test_the_kept_checkpoint_is_the_best_on_dev[test]",
    "test_steps_at_once.py::test_the_states_after_several_steps_are_those_after_single_ones",
    "test_streams.py",
    "test_interop.py::test_logits_are_those_of_the_released_code[re2_31]",
)


@pytest.mark.slow
def test_invariants_resume_and_golden_files_hold_with_optimisations():
    # Under xdist, this process is a worker. The pytest that it starts must not take itself for one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "XLA_FLAGS"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += [str(ROOT / "tests" / claim) for claim in CLAIMS]
    done = subprocess.run(command, cwd=ROOT, env={**environment, "XLA_FLAGS": ""}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert " passed" in last and "skipped" not in last, last
