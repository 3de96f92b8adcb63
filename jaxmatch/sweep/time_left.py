"""How long a sweep still takes."""

import time
from collections.abc import Callable, Hashable, Mapping

# Seconds that a program takes to compile, until one was. On a CPU: 359 s for 36 programs of RE2 with one to five blocks
# (benchmarks/results/README.md, "9 programs, first launch"). For an H200 RE2's programs took 12 to 14 s beside
# eleven others (benchmarks/results/device/README.md); a TPU's compiler takes longer.
SECONDS_ON_A_CPU, SECONDS_ELSEWHERE = 10.0, 20.0

Programs = Mapping[str, int]  # "training" and "evaluation" -> how many lengths a program is compiled for


def assumed_seconds(platform: str) -> float:
    """What a program is assumed to take to compile for a platform, "cpu" or another."""
    return SECONDS_ON_A_CPU if platform == "cpu" else SECONDS_ELSEWHERE


class TimeLeft:
    """Estimates how long a sweep still takes: training at the speed so far, and what is still to be compiled.

    The time that compiling takes says nothing about the speed of training, so it is counted apart.

    Arguments:
      work: of the whole sweep, in any unit.
      programs: signature -> what is compiled for it, as far as known.
      training: the seconds that all the work is expected to take, for the time before any is done.
      a_program: the seconds that a program is assumed to take to compile, until one was.
      clock: gives the time in seconds.
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
        self._training_seconds, self._looked = 0.0, clock()
        self._reports, self._first = 0, 0.0

    def begun(self, cohort: str) -> None:
        """A cohort trains."""
        self._look()
        self._running.add(cohort)

    def left(self, cohort: str) -> None:
        """It does not any more."""
        self._look()
        self._running.discard(cohort)
        self._compiling.discard(cohort)

    def compiling(self, cohort: str, key: Hashable, part: str, lengths: int) -> None:
        """It compiles a program of a part, of one of so many lengths."""
        self._look()
        self._compiling.add(cohort)
        self._expected.setdefault(key, {})[part] = lengths

    def compiled(self, cohort: str, key: Hashable, part: str, seconds: float) -> None:
        """That took so long."""
        self._look()
        self._compiling.discard(cohort)
        made = self._made.setdefault(key, {})
        made[part] = made.get(part, 0) + 1
        self._seconds.setdefault(part, []).append(seconds)

    def did(self, work: float, *, here: bool) -> None:
        """Some work is done; `here`: by this process, which tells how fast it is.

        The first of such reports tells it only as long as there is no other: what comes before the first step, such as
        transfers and the start of a GPU, would count as if each step had it.
        """
        self._look()
        self.done += work
        if here and work > 0:
            if self._reports == 1:
                self._here, self._training_seconds = 0.0, self._training_seconds - self._first
            self._reports += 1
            if self._reports == 1:
                self._first = self._training_seconds
        self._here += work if here else 0.0  # below 0 where memory ran out and steps are made again

    def slowed(self) -> None:
        """Forgets the speed so far: memory ran out, and fewer runs train at once from here on. The seconds in which XLA
        tried to find memory were no training.
        """
        self._look()
        self._here, self._training_seconds, self._reports = 0.0, 0.0, 0

    def seconds(self) -> float:
        """The estimate; before enough was done here to tell the speed, that of the plan."""
        self._look()
        to_do = max(0.0, self.total - self.done)
        if self._here > 0 and self._reports > 1:
            return self._training_seconds * to_do / self._here + self._compilation()
        return self._expected_training * to_do / (self.total or 1.0) + self._compilation()

    def _compilation(self) -> float:
        """What is still to be compiled, each at the mean of its part so far, or else of all parts, or as assumed."""
        every = [seconds for part in self._seconds.values() for seconds in part] or [self._a_program]
        left = 0.0
        for key, parts in self._expected.items():
            for part, lengths in parts.items():
                known = self._seconds.get(part, every)
                left += max(0, lengths - self._made.get(key, {}).get(part, 0)) * sum(known) / len(known)
        return left

    def _look(self) -> None:
        """Counts the time since the last look as training, unless nothing ran or all that ran was compiling."""
        now = self._clock()
        if len(self._compiling) < len(self._running):
            self._training_seconds += now - self._looked
        self._looked = now
