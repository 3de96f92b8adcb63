"""The remaining time of a sweep."""

import time
from collections.abc import Callable, Hashable, Mapping

# The seconds that a program is assumed to take to compile, until one has been compiled. On a CPU, 36 programs of RE2
# with one to five blocks took 359 s (benchmarks/results/README.md, "9 programs, first launch"). For an H200, programs
# of RE2 took 12 to 14 s beside eleven others (benchmarks/results/device/README.md). A TPU's compiler takes longer.
SECONDS_ON_A_CPU, SECONDS_ELSEWHERE = 10.0, 20.0

Programs = Mapping[str, int]  # "training" and "evaluation" -> how many lengths a program is compiled for


def assumed_seconds(platform: str) -> float:
    """Returns the seconds that a program is assumed to take to compile for a platform, "cpu" or another."""
    return SECONDS_ON_A_CPU if platform == "cpu" else SECONDS_ELSEWHERE


class TimeLeft:
    """An estimate of the time that a sweep still takes, to train at the speed so far and to compile missing programs.

    The time that programs take to compile says nothing about the speed of training, so it is counted separately.

    Arguments:
      work: the work of the whole sweep, in any unit.
      programs: key -> the programs that are compiled for it, as far as known. Cohorts with one key share programs.
      training: the seconds that all the work is expected to take. The estimate uses them until the speed is known.
      a_program: the seconds that a program is assumed to take to compile, until one has been compiled.
      clock: a function that returns the time in seconds.
    """

    def __init__(
        self,
        work: float,
        programs: Mapping[Hashable, Programs],
        training: float,
        a_program: float,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._expected_training, self._a_program = training, a_program
        self.total, self.done = work, 0.0
        self._here, self._clock = 0.0, clock
        self._expected = {key: dict(parts) for key, parts in programs.items()}
        self._made: dict[Hashable, dict[str, int]] = {key: {} for key in programs}
        self._seconds: dict[str, list[float]] = {}
        self._running: set[str] = set()
        self._compiling: set[str] = set()
        self._training_seconds, self._counted_until = 0.0, clock()
        self._reports, self._first = 0, 0.0

    def begun(self, cohort: str) -> None:
        """Notes that a cohort begins to train."""
        self._count_elapsed()
        self._running.add(cohort)

    def training_ended(self, cohort: str) -> None:
        """Notes that a cohort does not train any more."""
        self._count_elapsed()
        self._running.discard(cohort)
        self._compiling.discard(cohort)

    def compiling(self, cohort: str, key: Hashable, part: str, lengths: int) -> None:
        """Notes that a cohort compiles a part ("training" or "evaluation") for one of `lengths` lengths."""
        self._count_elapsed()
        self._compiling.add(cohort)
        self._expected.setdefault(key, {})[part] = lengths

    def compiled(self, cohort: str, key: Hashable, part: str, seconds: float) -> None:
        """Notes that a cohort has compiled a program of a part, and how many seconds that took."""
        self._count_elapsed()
        self._compiling.discard(cohort)
        made = self._made.setdefault(key, {})
        made[part] = made.get(part, 0) + 1
        self._seconds.setdefault(part, []).append(seconds)

    def add_work(self, work: float, *, here: bool) -> None:
        """Notes that some work is done. Work that this process did (`here`) shows the speed of training.

        The first report of such work is left out of the speed once there is a second. It includes what precedes the
        first step, such as transfers and the start of a GPU, which would otherwise count as part of every step.
        """
        self._count_elapsed()
        self.done += work
        if here and work > 0:
            if self._reports == 1:
                self._here, self._training_seconds = 0.0, self._training_seconds - self._first
            self._reports += 1
            if self._reports == 1:
                self._first = self._training_seconds
        self._here += work if here else 0.0  # negative if memory ran out and steps are repeated

    def slowed(self) -> None:
        """Forgets the speed so far, because memory ran out and fewer runs train at the same time from now on.

        The seconds in which XLA tried to find memory do not count as training.
        """
        self._count_elapsed()
        self._here, self._training_seconds, self._reports = 0.0, 0.0, 0

    def seconds(self) -> float:
        """Returns the estimate in seconds. Until enough work was done here to measure the speed, it uses the plan's."""
        self._count_elapsed()
        to_do = max(0.0, self.total - self.done)
        if self._here > 0 and self._reports > 1:
            return self._training_seconds * to_do / self._here + self._compilation()
        return self._expected_training * to_do / (self.total or 1.0) + self._compilation()

    def _compilation(self) -> float:
        """Returns the seconds that the missing programs take to compile.

        A program counts as the mean of its part so far, else as the mean of all parts, else as assumed.
        """
        every = [seconds for part in self._seconds.values() for seconds in part] or [self._a_program]
        seconds = 0.0
        for key, parts in self._expected.items():
            for part, lengths in parts.items():
                known = self._seconds.get(part, every)
                seconds += max(0, lengths - self._made.get(key, {}).get(part, 0)) * sum(known) / len(known)
        return seconds

    def _count_elapsed(self) -> None:
        """Counts the time since the last call as training, unless no cohort ran or all of them were compiling."""
        now = self._clock()
        if len(self._compiling) < len(self._running):
            self._training_seconds += now - self._counted_until
        self._counted_until = now
