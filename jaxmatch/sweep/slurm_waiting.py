"""Waiting in the foreground for jobs of Slurm, because `jaxmatch tune` needs the runs that they train.

The working folder tells how far a cohort is, and Slurm is asked now and then whether its job still exists. The user may
interrupt the command and start it again. The jobs continue meanwhile, and are not submitted twice.
"""

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from jaxmatch.errors import InputError
from jaxmatch.printable import count_text
from jaxmatch.sweep import slurm_jobs
from jaxmatch.sweep.engines import Task, TaskContext
from jaxmatch.sweep.events import Replay
from jaxmatch.sweep.failures import MOST_DEATHS, Deaths, mark_failed

SECONDS_BETWEEN_POLLS = 0.5
# One query is about all jobs of the user. A query every few seconds does not burden Slurm.
SECONDS_BETWEEN_QUERIES = 5.0
SECONDS_BETWEEN_LINES = 60.0
# How long after the end of a job its files may take to appear on another machine.
SECONDS_TO_BE_SEEN = 10.0


@dataclasses.dataclass
class _Running:
    """A job that the command waits for.

    Attributes:
      task: the task of the job.
      job: the name of the job.
      replay: the replay that displays the events of the job.
      seen_at: the last time when the job was known not to be over; -inf once its cohort has been marked as failed.
    """

    task: Task
    job: str
    replay: Replay
    seen_at: float


class Waiting:
    """A wait for jobs that train tasks.

    Arguments:
      context: what the tasks have in common.
      submit: a function that takes tasks, `context` and jobs that have finished their tasks. It returns the job of each
        cohort, and the number of new jobs.
      local: whether the jobs run on this machine.
      at_once: the largest number of jobs at the same time. None means one job for each task.
      over: the jobs that have finished their tasks but may exist for a while longer. Finished jobs are added to it.
      clock: a function that returns the time in seconds.
    """

    def __init__(
        self,
        context: TaskContext,
        submit: Callable[[Sequence[Task], TaskContext, set[str]], tuple[Mapping[str, str], int]],
        local: bool,
        at_once: int | None = None,
        over: set[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._context, self._submit, self._local, self._at_once, self._clock = context, submit, local, at_once, clock
        self._workdir = context.workdir.path.absolute()
        self._running: dict[str, _Running] = {}  # by the name of the cohort
        self._over = set() if over is None else over
        self._deaths = Deaths()
        self._queried_at = self._last_line_at = -float("inf")
        self._last_line = ""

    def run(self, tasks: Sequence[Task], more: Callable[[], Iterable[Task]] = tuple) -> bool:
        """Trains tasks as `Engine.run` does.

        Raises:
          KeyboardInterrupt: the user interrupted the command. The message names the jobs that continue.
          InputError: Slurm refuses a job.
        """
        waiting, trained = sorted(tasks, key=lambda task: -task.duration), False
        try:
            while waiting or self._running:
                free_slots = len(waiting) if self._at_once is None else max(0, self._at_once - len(self._running))
                if free_slots and waiting:
                    self._begin(waiting[:free_slots])
                    del waiting[:free_slots]
                time.sleep(SECONDS_BETWEEN_POLLS)
                over = [each for each in list(self._running.values()) if self._is_over(each)]
                trained |= any(not self._is_removed(each.task) for each in over)
                self._query_jobs()
                if over:
                    waiting[:0] = more()
        except KeyboardInterrupt:
            raise KeyboardInterrupt(self._interrupted()) from None
        return trained

    def _begin(self, tasks: Sequence[Task]) -> None:
        earlier = slurm_jobs.read_jobs(self._workdir)
        job_of, new = self._submit(tasks, self._context, self._over)
        for task in tasks:
            job = job_of[task.folder.name]
            self._over.discard(job)  # on one machine, the names of jobs are reused
            replay = Replay(self._context, task.folder, job)
            self._running[task.folder.name] = _Running(task, job, replay, self._clock())
        old = len(tasks) - new
        parts = [f"{count_text(new, 'job')} submitted"] * bool(new)
        parts += [f"{count_text(old, 'job')} of an earlier command continue{'s' * (old == 1)}"] * bool(old)
        logs = "" if earlier else f"; logs are in {slurm_jobs.folder_of(self._workdir)}"
        self._context.display.say(", ".join(parts) + logs)

    def _failed(self, task: Task) -> bool:
        return task.folder.failure() not in (None, self._context.before.get(task.folder.name))

    def _is_removed(self, task: Task) -> bool:
        """Returns whether another launcher has removed the cohort."""
        return not (task.folder.path / "cohort.json").exists()

    def _is_over(self, each: _Running) -> bool:
        """Displays the new events of a cohort, and returns whether its job has nothing more to do.

        The cohort of such a job is no longer waited for.
        """
        each.replay.poll()
        stage = each.task.stage or self._context.stage
        if not (stage.reached(each.task.folder) or self._failed(each.task) or self._is_removed(each.task)):
            return False
        # The last event is reported once the job has trained. A job of an earlier command may report no events.
        if not each.replay.training_ended and self._clock() - each.seen_at < SECONDS_TO_BE_SEEN:
            return False
        each.replay.ended("its job is over")
        self._over.add(each.job)
        del self._running[each.task.folder.name]
        return True

    def _query_jobs(self) -> None:
        """Asks Slurm, unless it was asked just before, which jobs ended before they finished their tasks."""
        now = self._clock()
        if now - self._queried_at < (SECONDS_BETWEEN_POLLS if self._local else SECONDS_BETWEEN_QUERIES):
            return
        self._queried_at = now
        jobs = slurm_jobs.Jobs(self._local, {each.job: name for name, each in self._running.items()})
        try:
            living = slurm_jobs.alive(self._workdir, jobs)
        except InputError as error:  # Slurm may be restarting
            self._say(f"{error.problem}; trying again")
            return
        for each in list(self._running.values()):
            if each.job in living:
                each.seen_at = self._clock()
            elif now - each.seen_at > (2.0 if self._local else SECONDS_TO_BE_SEEN):
                self._lost(each)
        if living:
            queued = sum(map(slurm_jobs.is_queued, living.values()))
            self._say(f"jobs: {queued} queued, {len(living) - queued} running")

    def _say(self, line: str) -> None:
        """Displays a line, unless it repeats the last one or follows it within a minute."""
        if line != self._last_line and self._clock() - self._last_line_at > SECONDS_BETWEEN_LINES:
            self._last_line, self._last_line_at = line, self._clock()
            self._context.display.say(line)

    def _lost(self, each: _Running) -> None:
        """Handles a job that ended too early: submits its task again, or marks its cohort as failed."""
        folder = each.task.folder
        if self._is_over(each) or slurm_jobs.is_held(self._workdir, folder.name):
            return  # the task is finished by now, or another launcher trains the cohort
        state = slurm_jobs.final_state(each.job, self._local)
        log = slurm_jobs.folder_of(self._workdir) / f"{each.job}_0_log.out"
        remedy = f"see {log}" if log.exists() else f"it wrote no log: do the nodes reach {log.parent}?"
        if slurm_jobs.out_of_memory(state):
            problem, remedy = f"its job {each.job} ran out of memory", slurm_jobs.memory_remedy(folder)
        elif state.startswith("CANCELLED"):
            problem = f"its job {each.job} was cancelled"
        else:
            problem = self._count_death(each, state)
        if problem:
            mark_failed(folder, InputError(problem, remedy=remedy))
            self._context.display.say(f"cohort {folder.name}: failed ({problem})")
            each.seen_at = -float("inf")
            return
        each.replay.ended(f"its job {each.job} has ended{state and f' ({state})'}")
        self._over.add(each.job)
        self._begin([each.task])

    def _count_death(self, each: _Running, state: str) -> str:
        """Counts a job that has ended. Returns the problem if the cohort gets no further job, else ""."""
        deaths = self._deaths.count(each.task.folder.name, each.task.folder.newest_checkpoint())
        ended = f"its job was ended {deaths} times without a new checkpoint{state and f' ({state})'}"
        return ended if deaths >= MOST_DEATHS else ""

    def _interrupted(self) -> str:
        jobs: list[Any] = [each.job for each in self._running.values()]
        if not jobs:
            return ""
        kill = "kill" if self._local else "scancel"
        many, them = (f"{len(jobs)} jobs continue", "them") if len(jobs) > 1 else ("1 job continues", "it")
        return (
            f"interrupted; {many} ({kill} {' '.join(jobs)} ends {them}); run the same command to wait for {them} again"
        )
