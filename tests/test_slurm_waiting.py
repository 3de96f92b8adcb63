"""Tuning with Slurm jobs: the command waits for their results. test_slurm_cluster_tuning.py has a real Slurm."""

import json
import os
import signal
import subprocess
from types import SimpleNamespace

import pytest
import small_sweep

from jaxmatch.cli.main import main
from jaxmatch.errors import InputError
from jaxmatch.sweep import on_slurm, slurm_jobs, slurm_waiting
from jaxmatch.sweep.claimed import Stage
from jaxmatch.sweep.engines import Task, TaskContext
from jaxmatch.sweep.events import writer
from jaxmatch.sweep.failures import MOST_DEATHS, Deaths, failure_message
from jaxmatch.sweep.slurm_waiting import Waiting
from jaxmatch.workdir import Workdir

pytest.importorskip("submitit", reason="submitit is not installed: pip install 'jaxmatch[slurm]'")

HALVING = (
    *("--halving", "--eta=2", "--rungs=1", "--seeds=2", "--final-seeds=1", "--epochs=2"),
    "--grid.optimizer.learning_rate=0.03,0.003",
)


def tuning(files, workdir, *words):
    return ["tune", *small_sweep.command(files, workdir, *words)[1:]]


LISTENER = """
import os
from jaxmatch import RunListener

class Recorder(RunListener):
    def evaluated(self, run, evaluation):
        with open(os.environ["EVALUATIONS"], "a") as file:
            file.write(f"{run.name} {evaluation['samples']}\\n")
"""


@pytest.mark.slow
def test_halving_with_slurm_jobs_equals_halving_in_one_process(small_files, tmp_path, capfd, monkeypatch):
    (tmp_path / "evaluations.py").write_text(LISTENER)
    found = []
    for name, where in (("one", ()), ("jobs", ("--on", "slurm:local"))):
        monkeypatch.setenv("EVALUATIONS", str(tmp_path / f"{name}.txt"))
        words = (*HALVING, "--log", f"{tmp_path / 'evaluations.py'}:Recorder", *where)
        assert main(tuning(small_files, tmp_path / name, *words)) == 0
        printed = capfd.readouterr()
        folders = (tmp_path / name, tmp_path / name / "final")
        evaluations = (tmp_path / f"{name}.txt").read_text()
        found.append((printed.out, evaluations, [small_sweep.results(folder) for folder in folders]))
    assert found[0] == found[1]
    lines = printed.err.splitlines()
    assert [line for line in lines if "submitted" in line] == [
        f"1 job submitted; logs are in {tmp_path / 'jobs' / 'slurm'}",
        "1 job submitted",
        f"1 job submitted; logs are in {tmp_path / 'jobs' / 'final' / 'slurm'}",
    ]
    assert not any("earlier command" in line for line in lines)
    # The progress of the jobs is shown.
    assert any("at the rung" in line for line in lines) and any("epoch 2," in line for line in lines)
    assert not list(tmp_path.glob("jobs/cohorts/*/events.jsonl"))
    assert main(tuning(small_files, tmp_path / "jobs", *HALVING, "--on", "slurm:local", "--status")) == 0
    shown = capfd.readouterr().out
    assert shown.count("1 done") == 2 and str(tmp_path / "jobs" / "final") in shown


def test_tune_refuses_the_collect_option(small_files, tmp_path, capsys):
    assert main(tuning(small_files, tmp_path / "runs", "--on", "slurm:local", "--collect")) == 2
    assert "tune prints its tables itself, once its jobs are done; leave out --collect" in capsys.readouterr().err


class Slurm:
    """Two cohorts and their jobs, whose states a test controls.

    Attributes:
      submitted: names of cohorts, in the order of their jobs, which are called "0", "1", ...
      living: jobs that have not ended -> their state.
      ends: jobs that have ended -> their state.
    """

    def __init__(self, workdir, monkeypatch):
        self.workdir, self.now = Workdir(workdir), 0.0
        self.folders = self.workdir.claim([("s", ("a-seed0",)), ("t", ("b-seed0",))])
        self.tasks = [Task(folder, 1, 1.0) for folder in self.folders]
        self.submitted, self.living, self.ends, self.printed = [], {}, {}, []
        display = SimpleNamespace(say=self.printed.append)
        self.work = TaskContext(None, self.workdir, display, Stage(), {folder.name: None for folder in self.folders})
        monkeypatch.setattr(slurm_waiting.time, "sleep", self.sleep)
        monkeypatch.setattr(slurm_jobs, "alive", self.alive)
        monkeypatch.setattr(slurm_jobs, "run", lambda *words: "")
        monkeypatch.setattr(slurm_jobs, "final_state", lambda job, local: self.ends.get(job, ""))
        self.steps, self.over = [], set()

    def sleep(self, seconds):
        self.now += 5.0
        if self.steps:
            self.steps.pop(0)()
        assert self.now < 1000

    def alive(self, workdir, jobs):
        return {job: state for job, state in self.living.items() if job in jobs.cohorts}

    def submit(self, tasks, work, over):
        found = {}
        for task in tasks:
            found[task.folder.name] = str(len(self.submitted))
            self.living[str(len(self.submitted))] = "RUNNING"
            self.submitted.append(task.folder.name)
        return found, len(tasks)

    def end(self, job, state):
        del self.living[job]
        self.ends[job] = state

    def trained(self, job):
        folder = next(each for each in self.folders if each.name == self.submitted[int(job)])
        folder.mark_done()
        writer(folder, job)(folder.name, "training_ended", ())
        self.end(job, "COMPLETED")

    def wait(self, more=tuple, at_once=None):
        return Waiting(self.work, self.submit, False, at_once, self.over, lambda: self.now).run(self.tasks, more)


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    return Slurm(tmp_path, monkeypatch)


def test_the_command_waits_until_all_cohorts_are_trained(slurm):
    slurm.steps = [lambda: None, lambda: slurm.trained("1"), lambda: None, lambda: slurm.trained("0")]
    called = []
    assert slurm.wait(lambda: called.append(1) or ()) is True
    assert len(slurm.submitted) == 2 and len(called) == 2 and slurm.over == {"0", "1"}
    assert slurm.printed == [
        f"2 jobs submitted; logs are in {slurm.workdir.path / 'slurm'}",
        "jobs: 0 queued, 2 running",
    ]


def test_further_cohorts_are_submitted_as_they_become_ready(slurm):
    left, slurm.tasks = slurm.tasks[1:], slurm.tasks[:1]
    slurm.steps = [lambda: slurm.trained("0"), lambda: None, lambda: slurm.trained("1")]
    assert slurm.wait(lambda: [left.pop()] if left else []) is True
    assert slurm.submitted == [folder.name for folder in slurm.folders]


def test_the_number_of_concurrent_jobs_is_limited(slurm):
    slurm.steps = [lambda: None, lambda: None, lambda: slurm.trained("0"), lambda: None, lambda: slurm.trained("1")]
    seen = []
    slurm.wait(lambda: seen.append(len(slurm.submitted)) or (), at_once=1)
    assert seen == [1, 2]


def test_deaths_are_counted_per_cohort_and_newest_checkpoint():
    deaths = Deaths()
    assert [deaths.count("a", newest) for newest in (-1, -1, 4, 4)] == [1, 2, 1, 2]
    assert deaths.count("b", 4) == 1
    assert deaths.count("a", 4) == 3 == MOST_DEATHS
    assert deaths.count("a", 4) == 1  # the cohort has failed, and is tried again


def test_a_lost_job_is_resubmitted_until_its_cohort_has_failed(slurm):
    slurm.steps = [lambda: slurm.trained("0"), lambda: slurm.end("1", "NODE_FAIL")]
    slurm.steps += [lambda: None] * 4 + [lambda: slurm.end("2", "NODE_FAIL")]
    (checkpoint := slurm.folders[1].checkpoints / "7").mkdir(parents=True)
    slurm.steps += [lambda: checkpoint.rename(checkpoint.with_name("8"))] + [lambda: None] * 4
    for job in ("3", "4"):
        slurm.steps += [lambda job=job: slurm.end(job, "FAILED")] + [lambda: None] * 4
    assert slurm.wait() is True
    assert slurm.submitted[1:] == [slurm.folders[1].name] * 4
    printed = failure_message(slurm.folders[1])
    assert printed.startswith("its job was ended 3 times without a new checkpoint (FAILED); it wrote no log")
    assert not slurm.folders[0].failure()


def test_a_cancelled_job_is_not_resubmitted(slurm):
    slurm.steps = [lambda: slurm.trained("0"), lambda: slurm.end("1", "CANCELLED by 0")]
    assert slurm.wait() is True
    assert len(slurm.submitted) == 2
    assert failure_message(slurm.folders[1]).startswith("its job 1 was cancelled; it wrote no log")


def test_a_job_that_ran_out_of_memory_is_not_resubmitted(slurm):
    """The next job would be given the same memory, for a cohort of the same size."""
    slurm.steps = [lambda: slurm.trained("0"), lambda: slurm.end("1", "OUT_OF_MEMORY")]
    assert slurm.wait() is True
    assert len(slurm.submitted) == 2
    wanted = f"its job 1 ran out of memory; give more memory_gb, or remove {slurm.folders[1].path} and set a smaller"
    assert failure_message(slurm.folders[1]).startswith(wanted)


def test_a_cohort_that_another_launcher_trains_is_left_to_it(slurm):
    folder = slurm.folders[1]
    lock = folder.lock()
    slurm.steps = [lambda: slurm.trained("0"), lambda: (lock.acquire(), slurm.end("1", "COMPLETED"))]
    slurm.steps += [lambda: None] * 6 + [lambda: (folder.mark_done(), lock.release())]
    assert slurm.wait() is True
    assert len(slurm.submitted) == 2 and folder.failure() is None


def test_waiting_continues_while_slurm_does_not_respond(slurm, monkeypatch):
    original = slurm.alive

    def unreachable(workdir, jobs):
        raise InputError("squeue does not answer")

    monkeypatch.setattr(slurm_jobs, "alive", unreachable)
    restore = [lambda: monkeypatch.setattr(slurm_jobs, "alive", original)]
    slurm.steps = [lambda: None] * 5 + restore + [lambda: slurm.trained("0"), lambda: slurm.trained("1")]
    assert slurm.wait() is True
    assert len(slurm.submitted) == 2 and slurm.printed[1] == "squeue does not answer; trying again"


def test_an_interrupt_leaves_the_jobs_running(slurm):
    def interrupt():
        raise KeyboardInterrupt

    slurm.steps = [lambda: slurm.trained("0"), interrupt]
    with pytest.raises(KeyboardInterrupt) as caught:
        slurm.wait()
    assert str(caught.value) == (
        "interrupted; 1 job continues (scancel 1 ends it); run the same command to wait for it again"
    )
    assert slurm.living == {"1": "RUNNING"}


def test_events_of_a_requeued_job_are_shown(slurm, tmp_path):
    """The file also holds events of an earlier command's job, which are not shown."""
    folder, shown = slurm.folders[0], []

    class Shown:
        def __getattr__(self, method):
            return lambda *arguments: shown.append((method, *arguments))

    plan = SimpleNamespace(runs={name: (name, None) for name in folder.runs})
    display = SimpleNamespace(say=print, cohort=lambda folder, runs: shown.append(("cohort", *runs)) or Shown())
    replay = slurm_waiting.Replay(TaskContext(plan, slurm.workdir, display, Stage(), {}), folder, "17")
    for job, method, arguments in (
        ("16", "cohort", ()), ("17", "cohort", ()), ("17", "stepped", (3, 8)), ("17", "training_ended", ()),
        ("17", "cohort", ()), ("17", "resumed", (3, 8)),
    ):  # fmt: skip
        writer(folder, job)(folder.name, method, arguments)
    replay.poll()
    assert shown == [
        ("cohort", "a-seed0"), ("stepped", 3, 8), ("training_ended",), ("lost", "its job was queued again"),
        ("cohort", "a-seed0"), ("resumed", 3, 8),
    ]  # fmt: skip
    assert not replay.training_ended
    assert json.loads((folder.path / "events.jsonl").read_text().splitlines()[0])[0] == "16"


def test_a_cohort_waiting_at_a_rung_is_listed_as_paused(slurm):
    slurm_jobs.add_jobs(slurm.workdir.path, False, {"3": slurm.folders[0].name})
    slurm.folders[0].rung(2).write_text("{}")
    states = [(each.state, each.note) for each in slurm_jobs.states(slurm.workdir.path)]
    assert sorted(states) == [("not submitted", ""), ("paused", "after epoch 2")]


def test_an_interrupt_is_deferred_during_submission():
    """Child processes that are started meanwhile never receive the interrupt."""
    printed = []
    with pytest.raises(KeyboardInterrupt), on_slurm.defer_interrupts():
        os.kill(os.getpid(), signal.SIGINT)
        words = ["sh", "-c", "kill -INT $$; kill -HUP $$; echo goes on"]
        printed.append(subprocess.run(words, capture_output=True, text=True).stdout)
    assert printed == ["goes on\n"]
