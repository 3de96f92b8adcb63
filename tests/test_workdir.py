"""The folder of a sweep: which cohorts a launcher trains, which it leaves alone, and which folders it refuses."""

import os
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxmatch.errors import InputError
from jaxmatch.files import write_json
from jaxmatch.workdir import Workdir, check_usable, pack

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
    for cohort in workdir.assign(planned):
        finish(workdir, cohort)


def test_a_fresh_folder_gets_the_cohorts_as_planned_each_time(workdir):
    planned = [(A, ("a0", "a1")), (A, ("a2",)), (B, ("b0", "b1"))]
    first = workdir.assign(planned)
    assert contents(first) == planned and contents(workdir.cohorts()) == planned
    assert workdir.assign(planned) == first and workdir.finished(RUNS) == set()


def test_a_run_with_a_record_is_finished_whatever_the_cohorts_say(workdir):
    planned = [(A, ("a0", "a1")), (B, ("b0",))]
    first, _ = workdir.assign(planned)
    write_json(workdir.run_folder("a0") / "record.json", {})
    assert workdir.finished(RUNS) == {"a0"} and workdir.assign([(A, ("a0",))]) == []
    # Killed between two records: the cohort resumes as it is.
    assert contents(workdir.assign(planned)) == [(A, ("a0", "a1")), (B, ("b0",))]
    # Killed after the last record: nothing is left to train.
    write_json(workdir.run_folder("a1") / "record.json", {})
    (first.checkpoints / "7").mkdir(parents=True)
    assert contents(workdir.assign(planned)) == [(B, ("b0",))]
    assert first.done and not first.checkpoints.exists()
    shutil.rmtree(workdir.path / "cohorts")
    assert workdir.finished(RUNS) == {"a0", "a1"} and contents(workdir.assign(planned)) == [(B, ("b0",))]


def test_adding_a_seed_assigns_only_the_new_runs_and_packs_them_together(workdir):
    finished(workdir, (A, ("a0", "a1")), (A, ("b0", "b1")))
    assigned = workdir.assign([(A, ("a0", "a1")), (A, ("a2", "b0")), (A, ("b1", "b2"))])
    assert contents(assigned) == [(A, ("a2", "b2"))]


def test_an_unfinished_cohort_is_assigned_with_its_original_runs(workdir):
    (existing,) = workdir.assign([(A, ("a0", "a1", "a2"))])
    existing.checkpoints.mkdir()
    assigned = workdir.assign([(A, ("a0", "a1")), (A, ("a2", "a3"))])
    assert contents(assigned) == [(A, ("a0", "a1", "a2")), (A, ("a3",))]
    assert existing.checkpoints.exists()


def test_assigning_fewer_runs_of_a_cohort_with_checkpoints_is_an_error(workdir):
    (existing,) = workdir.assign([(A, ("a0", "a1"))])
    (existing.checkpoints / "100").mkdir(parents=True)
    with pytest.raises(InputError, match="of 2 unfinished runs contains runs.*remove this folder") as refused:
        workdir.assign([(A, ("a0",))])
    assert refused.value.path == existing.path
    assert contents(workdir.assign([(A, ("a0", "a1"))])) == [(A, ("a0", "a1"))]
    shutil.rmtree(existing.path)
    assert contents(workdir.assign([(A, ("a0",))])) == [(A, ("a0",))]


def test_a_cohort_without_checkpoints_and_with_unplanned_runs_is_removed(workdir):
    (existing,) = workdir.assign([(A, ("a0", "a1"))])
    existing.checkpoints.mkdir()
    (existing.checkpoints / ".7.12.abcdef01.partial").touch()  # killed while the first one was written
    assigned = workdir.assign([(A, ("a0",))])
    assert contents(assigned) == [(A, ("a0",))]
    assert not existing.path.exists()


def test_a_locked_cohort_is_not_changed(workdir):
    (existing,) = workdir.assign([(A, ("a0", "a1"))])
    with existing.lock():
        assigned = workdir.assign([(A, ("a0", "a2"))])
        # a0 stays in the locked cohort, and a2 gets a new one.
        assert contents(assigned) == [(A, ("a0", "a1")), (A, ("a2",))]
        assert existing.path.exists()
    assert contents(workdir.assign([(A, ("a0", "a2"))])) == [(A, ("a0",)), (A, ("a2",))]


def test_a_run_whose_record_was_removed_is_assigned_alone(workdir):
    finished(workdir, (A, ("a0", "a1", "a2")), (B, ("b0",)))
    shutil.rmtree(workdir.run_folder("a0"))
    assert contents(workdir.assign([(A, ("a0", "a1")), (B, ("b0",))])) == [(A, ("a0",))]
    assert workdir.finished(RUNS) == {"a1", "a2", "b0"}


def test_a_cohort_whose_records_were_removed_starts_again(workdir):
    finished(workdir, (A, ("a0", "a1")))
    (done,) = workdir.cohorts()
    write_json(done.rung(2), {})
    shutil.rmtree(workdir.path / "runs")
    (again,) = workdir.assign([(A, ("a0", "a1"))])
    assert again == done and not again.done and not again.rung(2).exists()


def test_a_dropped_run_is_retrained_unless_dropped_runs_count_as_finished(workdir):
    finished(workdir, (A, ("a0", "a1")))
    write_json(workdir.run_folder("a1") / "record.json", {"status": "dropped"})
    planned, every = [(A, ("a0", "a1"))], lambda run, record: True
    assert workdir.finished(RUNS) == {"a0"} and workdir.finished(RUNS, every) == {"a0", "a1"}
    assert workdir.assign(planned, every) == []
    (cohort,) = workdir.assign(planned)
    assert contents([cohort]) == [(A, ("a1",))]  # a0 is left as it is
    finish(workdir, cohort)
    assert workdir.finished(RUNS) == {"a0", "a1"} and workdir.assign(planned) == []


def test_a_cohort_finished_during_an_assignment_is_not_restarted(workdir, monkeypatch):
    planned = [(A, ("a0", "a1"))]
    (cohort,) = workdir.assign(planned)
    look = Workdir.finished

    def look_slowly(self, runs, complete=None):
        found = look(self, runs)
        finish(self, cohort)  # as if by another launcher, just after the check
        return found

    monkeypatch.setattr(Workdir, "finished", look_slowly)
    workdir.assign(planned)
    monkeypatch.undo()
    assert cohort.done
    assert workdir.assign(planned) == []


def test_a_damaged_cohort_file_is_an_error(workdir):
    (cohort,) = workdir.assign([(A, ("a0",))])
    for text in ("{", "[]", '{"runs": []}', "\ufffd", "[" * 100_000):
        (cohort.path / "cohort.json").write_text(text)
        with pytest.raises(InputError, match="cohort.json: the file is damaged"):
            workdir.cohorts()


def test_clean_removes_what_killed_launchers_left(workdir):
    (cohort,) = workdir.assign([(A, ("a0",))])
    for name in (".sweep.json", "runs/.a0", "vectors/.v.npy", "cohorts/.x", f"cohorts/{cohort.name}/.cohort.json"):
        path = workdir.path / f"{name}.12.abcdef01.partial"
        path.parent.mkdir(exist_ok=True)
        path.mkdir() if "runs" in name else path.touch()
    workdir.clean()
    assert not list(workdir.path.rglob("*.partial")) and workdir.cohorts() == [cohort]


def dangling(path):
    path.symlink_to("nowhere")


@pytest.mark.parametrize("name", [".", "runs", "cohorts", "vectors", "slurm"])
@pytest.mark.parametrize("put", [dangling, os.mknod])
def test_an_obstacle_in_the_place_of_a_folder_is_refused_and_nothing_is_created(tmp_path, name, put):
    path = (tmp_path / "work" / name).resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    put(path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match="this is no folder that can be written; give another --workdir") as refused:
        check_usable(tmp_path / "work", "sweep.json", "s")
    assert refused.value.path == path
    assert sorted(tmp_path.rglob("*")) == before


def test_a_workdir_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    check_usable(tmp_path / "not" / "there" / "yet", "sweep.json", "s")
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    for path in (tmp_path / "not" / "there" / "yet", tmp_path):
        with pytest.raises(InputError, match="this is no folder that can be written") as refused:
            check_usable(path, "sweep.json", "s")
        assert refused.value.path == tmp_path
    assert not os.listdir(tmp_path)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([A, B]), st.integers(1, 5)), max_size=6), st.sets(st.integers(0, 30)))
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
