"""The folder of a sweep: which cohorts a launcher trains, and which it leaves alone."""

import os
import shutil
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxmatch.errors import InputError
from jaxmatch.files import write_json
from jaxmatch.workdir import Workdir, pack

A, B = "signature-a", "signature-b"
RUNS = ("a0", "a1", "a2", "b0", "b1")


@pytest.fixture
def workdir(tmp_path):
    return Workdir(tmp_path / "work")


def contents(cohorts):
    """Returns the signatures and the runs of cohort folders, sorted."""
    return sorted((cohort.signature, cohort.runs) for cohort in cohorts)


def finish(workdir, cohort):
    """Writes the files that the training of a cohort leaves."""
    for run in cohort.runs:
        write_json(workdir.run_folder(run) / "record.json", {})
    cohort.checkpoints.mkdir(exist_ok=True)
    cohort.mark_done()


def finished(workdir, *planned):
    for cohort in workdir.claim(planned):
        finish(workdir, cohort)


def test_a_fresh_folder_gets_the_cohorts_as_planned(workdir):
    claimed = workdir.claim([(A, ("a0", "a1")), (A, ("a2",)), (B, ("b0", "b1"))])
    assert contents(claimed) == [(A, ("a0", "a1")), (A, ("a2",)), (B, ("b0", "b1"))]
    assert contents(workdir.cohorts()) == contents(claimed)
    assert workdir.finished(RUNS) == set()


def test_claiming_twice_returns_the_same_cohorts(workdir):
    planned = [(A, ("a0", "a1")), (B, ("b0",))]
    first = workdir.claim(planned)
    assert {cohort.path for cohort in workdir.claim(planned)} == {cohort.path for cohort in first}
    assert len(workdir.cohorts()) == 2


def test_an_interrupted_launch_resumes_at_the_first_unfinished_cohort(workdir):
    planned = [(A, (f"a{number}",)) for number in range(8)]
    first = workdir.claim(planned)
    assert [cohort.runs for cohort in first] == [runs for _, runs in planned]
    finish(workdir, first[0])
    assert [cohort.runs for cohort in workdir.claim(planned)] == [runs for _, runs in planned[1:]]


def test_nothing_is_claimed_when_all_runs_have_records(workdir):
    finished(workdir, (A, ("a0", "a1")))
    assert workdir.finished(RUNS) == {"a0", "a1"}
    assert workdir.claim([(A, ("a0", "a1"))]) == []
    assert workdir.claim([(A, ("a1",))]) == []


def test_a_run_with_a_record_is_finished_whatever_the_cohorts_say(workdir):
    planned = [(A, ("a0", "a1")), (B, ("b0",))]
    first, _ = workdir.claim(planned)
    write_json(workdir.run_folder("a0") / "record.json", {})
    assert workdir.finished(RUNS) == {"a0"} and workdir.claim([(A, ("a0",))]) == []
    # Killed between two records: the cohort resumes as it is.
    assert contents(workdir.claim(planned)) == [(A, ("a0", "a1")), (B, ("b0",))]
    # Killed after the last record: nothing is left to train.
    write_json(workdir.run_folder("a1") / "record.json", {})
    (first.checkpoints / "7").mkdir(parents=True)
    assert contents(workdir.claim(planned)) == [(B, ("b0",))]
    assert first.done and not first.checkpoints.exists()
    shutil.rmtree(workdir.path / "cohorts")
    assert workdir.finished(RUNS) == {"a0", "a1"} and contents(workdir.claim(planned)) == [(B, ("b0",))]


def test_adding_a_seed_claims_only_the_new_runs_and_packs_them_together(workdir):
    finished(workdir, (A, ("a0", "a1")), (A, ("b0", "b1")))
    claimed = workdir.claim([(A, ("a0", "a1")), (A, ("a2", "b0")), (A, ("b1", "b2"))])
    assert contents(claimed) == [(A, ("a2", "b2"))]


def test_an_unfinished_cohort_is_claimed_with_its_original_runs(workdir):
    (existing,) = workdir.claim([(A, ("a0", "a1", "a2"))])
    existing.checkpoints.mkdir()
    claimed = workdir.claim([(A, ("a0", "a1")), (A, ("a2", "a3"))])
    assert contents(claimed) == [(A, ("a0", "a1", "a2")), (A, ("a3",))]
    assert existing.checkpoints.exists()


def test_claiming_fewer_runs_of_a_cohort_with_checkpoints_is_an_error(workdir):
    (existing,) = workdir.claim([(A, ("a0", "a1"))])
    (existing.checkpoints / "100").mkdir(parents=True)
    with pytest.raises(
        InputError, match="this cohort of 2 unfinished runs contains runs.*remove this folder"
    ) as refused:
        workdir.claim([(A, ("a0",))])
    assert refused.value.path == existing.path
    assert contents(workdir.claim([(A, ("a0", "a1"))])) == [(A, ("a0", "a1"))]
    shutil.rmtree(existing.path)
    assert contents(workdir.claim([(A, ("a0",))])) == [(A, ("a0",))]


def test_a_cohort_without_checkpoints_and_with_unplanned_runs_is_removed(workdir):
    (existing,) = workdir.claim([(A, ("a0", "a1"))])
    (existing.checkpoints / "7.orbax-checkpoint-tmp-1").mkdir(parents=True)  # killed while the first one was written
    claimed = workdir.claim([(A, ("a0",))])
    assert contents(claimed) == [(A, ("a0",))]
    assert not existing.path.exists()


def test_a_locked_cohort_is_not_changed(workdir):
    (existing,) = workdir.claim([(A, ("a0", "a1"))])
    with existing.lock():
        claimed = workdir.claim([(A, ("a0", "a2"))])
        # a0 stays in the locked cohort, and a2 gets a new one.
        assert contents(claimed) == [(A, ("a0", "a1")), (A, ("a2",))]
        assert existing.path.exists()
    assert contents(workdir.claim([(A, ("a0", "a2"))])) == [(A, ("a0",)), (A, ("a2",))]


def test_cohorts_of_other_sweeps_in_the_folder_are_left_alone(workdir):
    (other,) = workdir.claim([(B, ("b0", "b1"))])
    assert contents(workdir.claim([(A, ("a0",))])) == [(A, ("a0",))]
    assert other.path.exists()


def test_a_run_whose_record_was_removed_is_claimed_alone(workdir):
    finished(workdir, (A, ("a0", "a1", "a2")), (B, ("b0",)))
    shutil.rmtree(workdir.run_folder("a0"))
    assert contents(workdir.claim([(A, ("a0", "a1")), (B, ("b0",))])) == [(A, ("a0",))]
    assert workdir.finished(RUNS) == {"a1", "a2", "b0"}


def test_a_cohort_whose_records_were_removed_starts_again(workdir):
    finished(workdir, (A, ("a0", "a1")))
    (done,) = workdir.cohorts()
    write_json(done.rung(2), {})
    shutil.rmtree(workdir.path / "runs")
    (again,) = workdir.claim([(A, ("a0", "a1"))])
    assert again == done and not again.done and not again.rung(2).exists()


def test_a_run_in_two_cohorts_is_claimed_once(workdir):
    finished(workdir, (A, ("a0", "a1", "a2")))
    shutil.rmtree(workdir.run_folder("a0"))
    finished(workdir, (A, ("a0",)))
    shutil.rmtree(workdir.run_folder("a0"))
    claimed = workdir.claim([(A, ("a0", "a1", "a2"))])
    assert sum("a0" in cohort.runs for cohort in claimed) == 1


def test_a_dropped_run_is_retrained_unless_dropped_runs_count_as_finished(workdir):
    finished(workdir, (A, ("a0", "a1")))
    write_json(workdir.run_folder("a1") / "record.json", {"status": "dropped"})
    planned, every = [(A, ("a0", "a1"))], lambda run, record: True
    assert workdir.finished(RUNS) == {"a0"} and workdir.finished(RUNS, every) == {"a0", "a1"}
    assert workdir.claim(planned, every) == []
    (cohort,) = workdir.claim(planned)
    assert contents([cohort]) == [(A, ("a1",))]  # a0 is left as it is
    finish(workdir, cohort)
    assert workdir.finished(RUNS) == {"a0", "a1"} and workdir.claim(planned) == []


def test_a_cohort_finished_during_a_claim_is_not_restarted(workdir, monkeypatch):
    planned = [(A, ("a0", "a1"))]
    (cohort,) = workdir.claim(planned)
    look = Workdir.finished

    def look_slowly(self, runs, settled=None):
        found = look(self, runs)
        finish(self, cohort)  # as if by another launcher, just after the check
        return found

    monkeypatch.setattr(Workdir, "finished", look_slowly)
    workdir.claim(planned)
    monkeypatch.undo()
    assert cohort.done
    assert workdir.claim(planned) == []


def test_a_damaged_cohort_file_is_an_error(workdir):
    (cohort,) = workdir.claim([(A, ("a0",))])
    wrong = (
        '{"signature": "s", "runs": "a0"}',
        '{"signature": 3, "runs": []}',
        '{"signature": "s", "runs": [1, [2]]}',
        "[" * 100_000,
    )
    for text in ("{", "[]", '{"runs": []}', "\ufffd", *wrong):
        (cohort.path / "cohort.json").write_text(text)
        with pytest.raises(InputError, match="cohort.json: the file is damaged"):
            workdir.cohorts()


def test_a_cohort_with_only_its_done_marker_left_is_trained(workdir):
    finished(workdir, (A, ("a0",)))
    (cohort,) = workdir.cohorts()
    (cohort.path / "cohort.json").unlink()
    shutil.rmtree(workdir.path / "runs")
    (again,) = workdir.claim([(A, ("a0",))])
    assert again.path == cohort.path and not again.done


def test_partial_run_folders_of_a_killed_process_are_removed(workdir):
    (workdir.path / "runs" / ".a0.12.ab.partial" / "model").mkdir(parents=True)
    (workdir.path / "runs" / ".a1.12.ab.partial").mkdir()
    workdir.remove_partial_runs(["a0"])
    assert [folder.name for folder in (workdir.path / "runs").iterdir()] == [".a1.12.ab.partial"]


HOLDER = """
import sys, pathlib
from jaxmatch.workdir import CohortFolder
with CohortFolder(pathlib.Path(sys.argv[1]), "", ()).lock():
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_clean_removes_leftovers_of_killed_but_not_of_live_launchers(workdir):
    half, done, live, plain = workdir.claim([(A, ("a0",)), (A, ("a1",)), (A, ("a2",)), (A, ("a3",))])
    for cohort in (half, live):
        (cohort.checkpoints / "3").mkdir(parents=True)
        (cohort.checkpoints / "4.orbax-checkpoint-tmp" / "arrays").mkdir(parents=True)
    (done.checkpoints / "12").mkdir(parents=True)
    (done.path / "DONE").touch()
    (plain.checkpoints / "12").mkdir(parents=True)
    scratch = (".sweep.json", "runs/.a0", "vectors/.v.npy", "cohorts/.x", f"cohorts/{plain.name}/.cohort.json")
    for name in scratch:
        path = workdir.path / f"{name}.12.abcdef01.partial"
        path.parent.mkdir(exist_ok=True)
        path.mkdir() if "runs" in name else path.touch()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(live.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout.readline() == b"locked\n"
        workdir.clean()
    finally:
        holder.kill()
        holder.communicate()
    assert (
        os.listdir(half.checkpoints) == ["3"]
        and not done.checkpoints.exists()
        and os.listdir(plain.checkpoints) == ["12"]
    )
    assert sorted(os.listdir(live.checkpoints)) == ["3", "4.orbax-checkpoint-tmp"]
    assert not list(workdir.path.rglob("*.partial"))
    workdir.clean()
    assert os.listdir(live.checkpoints) == ["3"]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([A, B]), st.integers(1, 5)), max_size=6),
    st.sets(st.integers(0, 30)),
)
def test_packing_keeps_every_wanted_run_once_in_order_and_within_the_size(shape, unwanted):
    numbers = iter(range(100))
    planned = [(signature, tuple(f"{signature}{next(numbers)}" for _ in range(size))) for signature, size in shape]
    dropped = {run for _, runs in planned for run in runs if int(run.removeprefix(A).removeprefix(B)) in unwanted}
    packed = pack(planned, lambda run: run not in dropped)
    for signature in (A, B):
        runs = [run for each, runs in planned if each == signature for run in runs if run not in dropped]
        cohorts = [runs for each, runs in packed if each == signature]
        size = max((size for each, size in shape if each == signature), default=1)
        assert [run for cohort in cohorts for run in cohort] == runs
        assert all(0 < len(cohort) <= size for cohort in cohorts)
        assert len(cohorts) == -(-len(runs) // size)
