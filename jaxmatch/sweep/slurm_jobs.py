"""The jobs of a sweep on Slurm: the cohort that each job trains, and the state of the cohorts.

WORKDIR/slurm/jobs.json            the cohort of each job, and whether Slurm or this machine runs the jobs
WORKDIR/slurm/JOB_0_log.out        the output of a job
WORKDIR/slurm/JOB_submitted.pkl    the task of a job; JOB_0_result.pkl: its result (submitit writes both)
"""

import contextlib
import dataclasses
import os
import re
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import Timeout

from jaxmatch.errors import InputError, report_damage
from jaxmatch.files import read_json, write_json
from jaxmatch.sweep.failures import failure_message
from jaxmatch.workdir import CohortFolder, Workdir

SECONDS_TO_ANSWER = 60.0
# The remedies for a Slurm that does not respond, for jobs that it refuses, and for too many jobs.
_SLURM_RUNS = "see whether Slurm runs, as with sinfo"
_REFUSED = "see sinfo, and set the options of jobs in --slurm FILE"
_TOO_MANY = "run the same command again once some of your jobs are over; for tune, set at_once in --slurm FILE"
STATES = ("queued", "running", "paused", "done", "failed", "stopped", "not submitted")
_QUEUED = {"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "CONFIGURING", "SUSPENDED", "RESV_DEL_HOLD"}


def folder_of(workdir: Path) -> Path:
    """Returns the folder in which submitit stores its files."""
    return workdir.absolute() / "slurm"


@dataclasses.dataclass(frozen=True)
class Jobs:
    """The jobs that were submitted last for each cohort.

    Attributes:
      local: whether the jobs run on this machine (`--on slurm:local`).
      cohorts: job -> the name of its cohort.
    """

    local: bool
    cohorts: Mapping[str, str]


def read_jobs(workdir: Path) -> Jobs | None:
    """Reads the jobs of a sweep. Returns None if no jobs were submitted.

    Raises:
      InputError: jobs.json is damaged.
    """
    path = folder_of(workdir) / "jobs.json"
    with contextlib.suppress(FileNotFoundError), report_damage(path, "cancel the jobs, and remove its folder"):
        notes = read_json(path)
        return Jobs(bool(notes["local"]), {str(job): str(cohort) for job, cohort in notes["jobs"].items()})
    return None


def add_jobs(workdir: Path, local: bool, new: Mapping[str, str]) -> None:
    """Writes down new jobs, which replace older jobs of the same cohorts.

    If the older jobs ran in the other place (Slurm or this machine), all of them are replaced.
    """
    before = read_jobs(workdir)
    same = before is not None and before.local == local
    kept = {job: cohort for job, cohort in before.cohorts.items() if cohort not in new.values()} if same else {}
    write_json(folder_of(workdir) / "jobs.json", {"local": local, "jobs": {**kept, **new}})


class TooManyJobs(InputError):
    """Slurm refuses jobs because the user, an account, a QOS or an array may have no more of them."""


def refusal(text: str) -> InputError:
    """Returns the error for the message of a Slurm command that refused a job."""
    if re.search(r"Submit\w*Limit|Invalid job array", text):  # the latter is about more jobs than MaxArraySize
        return TooManyJobs(f"Slurm refuses: {text}", remedy=_TOO_MANY)
    return InputError(f"Slurm refuses: {text}", remedy=_REFUSED)


def run(*words: str, text: str = "") -> str:
    """Runs a command of Slurm and returns its output.

    Raises:
      InputError: the command does not exist, does not answer, or fails. If it fails, the error quotes its message.
    """
    try:
        done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=SECONDS_TO_ANSWER)
    except FileNotFoundError:
        raise InputError(
            f"there is no Slurm on this machine ({words[0]} is not found)",
            remedy="give the command where jobs are submitted, or --on slurm:local",
        ) from None
    except subprocess.TimeoutExpired:
        raise InputError(f"{words[0]} does not answer", remedy=_SLURM_RUNS) from None
    if done.returncode:
        problem = messages(done.stderr) or f"it ended with {done.returncode}"
        if words[0] == "sbatch":
            raise refusal(problem)
        raise InputError(f"{words[0]} fails: {problem}", remedy=_SLURM_RUNS)
    return done.stdout


def messages(text: str) -> str:
    """Returns the messages of a Slurm command in one line."""
    lines = [line.partition(": error: ")[2] or line.partition(": ")[2] or line for line in text.splitlines()]
    return "; ".join(dict.fromkeys(line.strip() for line in lines if line.strip()))


def alive(workdir: Path, jobs: Jobs) -> dict[str, str]:
    """Returns jobs that are not over -> their states in Slurm.

    Raises:
      InputError: Slurm does not answer.
    """
    if jobs.local:
        living = [job for job in jobs.cohorts if _is_controller(job)]
        return {job: "RUNNING" if is_held(workdir, jobs.cohorts[job]) else "PENDING" for job in living}
    listed = run("squeue", "--noheader", "--array", "--user", str(os.geteuid()), "--format", "%i %T")
    states = dict(line.split(maxsplit=1) for line in listed.splitlines() if line.strip())
    return {job: states[job].strip() for job in jobs.cohorts if job in states}


def is_queued(state: str) -> bool:
    """Returns whether a job waits, given its state in Slurm (see `alive`)."""
    return state in _QUEUED


def final_state(job: str, local: bool) -> str:
    """Returns the state in Slurm of a job that is over, such as "CANCELLED" or "OUT_OF_MEMORY".

    The state is "" for local jobs, and for jobs that Slurm has forgotten.
    """
    return _all_states(local, "--jobs", job).get(job, "")


def _all_states(local: bool, *which: str) -> dict[str, str]:
    """Returns jobs, including those that are over -> their states in Slurm.

    Slurm forgets a job some minutes after its end.
    """
    if local:
        return {}
    try:
        listed = run("squeue", "--noheader", "--array", "--states=all", *which, "--format", "%i %T")
    except InputError:
        return {}
    states = (line.split(maxsplit=1) for line in listed.splitlines() if line.strip())
    return {job: state.strip() for job, state in states}


def out_of_memory(state: str) -> bool:
    """Returns whether a state in Slurm means that the job was ended because it exceeded its memory."""
    return state.startswith("OUT_OF_ME")


def memory_remedy(folder: CohortFolder) -> str:
    """Returns the remedy for a cohort whose job ran out of memory.

    To train fewer runs at once, the folder must be removed: a cohort keeps its size as long as its folder exists.
    """
    return f"give more memory_gb, or remove {folder.path} and set a smaller execution.maximum_replicas"


def is_held(workdir: Path, cohort: str) -> bool:
    """Returns whether a process holds the lock of a cohort, which means that it trains the cohort."""
    try:
        with CohortFolder(workdir / "cohorts" / cohort, "", ()).lock().acquire(timeout=0):
            return False
    except Timeout:
        return True


def _is_controller(process: str) -> bool:
    """Returns whether a process of this machine runs a job, as far as the system can tell."""
    try:
        os.kill(int(process), 0)
    except (OSError, ValueError):
        return False
    try:
        return b"submitit" in Path("/proc", process, "cmdline").read_bytes()
    except OSError:
        return not Path("/proc/self").exists()


@dataclasses.dataclass(frozen=True)
class CohortState:
    """The state of a cohort.

    Attributes:
      folder: the folder of the cohort.
      state: one of `STATES`. "paused" means that the job is over because the cohort has reached a rung. "stopped" means
        that the job is over, but has neither trained the cohort nor failed.
      job: the job that was submitted last, or "".
      note: the reason for the state, or where to read more.
    """

    folder: CohortFolder
    state: str
    job: str
    note: str


def states(workdir: Path) -> list[CohortState]:
    """Returns the state of each cohort of a sweep.

    Raises:
      InputError: no jobs were submitted for the folder, or Slurm does not answer.
    """
    jobs = read_jobs(workdir)
    if jobs is None:
        raise InputError(
            "no jobs were submitted for this folder",
            path=workdir,
            remedy="leave out --status or --collect to submit them",
        )
    cohorts = Workdir(workdir).cohorts()
    living = {} if all(folder.done for folder in cohorts) else alive(workdir, jobs)
    job_of = {cohort: job for job, cohort in jobs.cohorts.items()}
    over = [
        folder for folder in cohorts if folder.name in job_of and not folder.done and job_of[folder.name] not in living
    ]
    ends = _all_states(jobs.local, "--user", str(os.geteuid())) if over else {}
    return [_state(folder, job_of.get(folder.name, ""), living, ends, workdir) for folder in cohorts]


def _state(
    folder: CohortFolder, job: str, living: Mapping[str, str], ends: Mapping[str, str], workdir: Path
) -> CohortState:
    log = folder_of(workdir) / f"{job}_0_log.out"
    log_file = str(log) if job and log.exists() else ""
    if folder.done:
        return CohortState(folder, "done", job, log_file)
    if job in living:
        return CohortState(folder, "queued" if is_queued(living[job]) else "running", job, log_file)
    if folder.failure() is not None:
        return CohortState(folder, "failed", job, f"{failure_message(folder)} ({folder.error_file})")
    end = ends.get(job, "")
    rungs = [int(file.stem.removeprefix("rung-")) for file in folder.path.glob("rung-*.json")]
    if rungs and end in ("", "COMPLETED"):  # rungs remain when a later job is ended
        return CohortState(folder, "paused", job, f"after epoch {max(rungs)}")
    if job and out_of_memory(end):
        return CohortState(folder, "stopped", job, f"it ran out of memory: {memory_remedy(folder)}")
    if job:
        missing = f"it wrote no log: do the nodes reach {folder_of(workdir)}?"
        return CohortState(folder, "stopped", job, log_file or missing)
    return CohortState(folder, "not submitted", "", "")


def totals(found: list[CohortState]) -> str:
    """Returns the number of cohorts in each state, as text."""
    count: Counter[Any] = Counter(each.state for each in found)
    return ", ".join(f"{count[state]} {state}" for state in STATES if count[state])


def status(workdir: Path) -> str:
    """Returns all cohorts as lines of text: name, number of runs, state, job, and where to read more.

    Raises:
      InputError: `states` raises it.
    """
    found = sorted(states(workdir), key=lambda each: (STATES.index(each.state), each.folder.name))
    rows = [("cohort", "runs", "state", "job", "log")]
    rows += [(each.folder.name, str(len(each.folder.runs)), each.state, each.job or "-", each.note) for each in found]
    widths = [max(map(len, column)) for column in list(zip(*rows))[:-1]]
    lines = ["  ".join((*(text.ljust(width) for text, width in zip(row, widths)), row[-1])).rstrip() for row in rows]
    again = any(each.state in ("stopped", "failed", "not submitted") for each in found)
    return "\n".join((*lines, totals(found) + "; the command without --status submits the rest again" * again))
