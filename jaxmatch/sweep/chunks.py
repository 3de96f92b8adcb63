"""Division of cohorts into smaller ones that keep more workers busy."""

import dataclasses
import heapq
import math
from collections.abc import Iterable

from jaxmatch.sweep.plan import Plan, PlannedCohort
from jaxmatch.sweep.sweep import Run

# With this many cohorts for each worker, all workers finish at about the same time anyway.
ENOUGH_COHORTS = 8
# The share of the time that a further cut must save. Each additional cohort costs the start of a worker or job.
LEAST_GAIN = 0.05
# The cost of a cohort besides its work: its worker or job starts, reads the data and compiles.
SECONDS_OF_A_START = 30.0


def split(plan: Plan, slots: int, overhead: float) -> Plan:
    """Cuts the cohorts of the signatures that take longest, as long as that clearly shortens the whole training.

    All cohorts of a signature but the last have the same size, because `workdir.pack` would regroup cohorts of other
    sizes. The last bits of a run's scores depend on how many runs are trained beside it, so another cut can change
    them.

    Arguments:
      plan: a plan in which one worker trains each cohort.
      slots: the number of cohorts that are trained at once.
      overhead: the cost of a cohort besides its work, in multiply-adds: its worker starts, reads data and compiles.
    """
    if len(plan.cohorts) >= ENOUGH_COHORTS * slots:
        return plan
    groups: dict[str, list[PlannedCohort]] = {}
    for cohort in plan.cohorts:
        groups.setdefault(cohort.signature, []).append(cohort)
    cuts = groups
    while True:
        now = _makespan(cuts, slots, overhead)
        longest = sorted(cuts, key=lambda signature: -cuts[signature][0].device_work)
        for signature in longest:
            tried = [cuts | {signature: cut} for cut in _smaller(cuts[signature])]
            best = min(tried, key=lambda each: _makespan(each, slots, overhead), default=cuts)  # ties: fewest cohorts
            if _makespan(best, slots, overhead) < (1 - LEAST_GAIN) * now:
                cuts = best
                break
        else:
            return dataclasses.replace(plan, cohorts=tuple(cohort for cut in cuts.values() for cohort in cut))


def _smaller(cohorts: list[PlannedCohort]) -> Iterable[list[PlannedCohort]]:
    """Yields the ways to cut the runs of a signature into more cohorts than it has, the fewest cohorts first."""
    runs: list[Run] = [run for cohort in cohorts for run in cohort.runs]
    sizes = {math.ceil(len(runs) / count) for count in range(len(cohorts) + 1, len(runs) + 1)}
    for size in sorted(sizes, reverse=True):
        if size < len(cohorts[0].runs):
            yield [
                dataclasses.replace(cohorts[0], runs=tuple(runs[start : start + size]))
                for start in range(0, len(runs), size)
            ]


def _makespan(cuts: dict[str, list[PlannedCohort]], slots: int, overhead: float) -> float:
    """Computes how long all cohorts take together: the longest first, each on the worker that is free soonest."""
    works = sorted((cohort.device_work + overhead for cut in cuts.values() for cohort in cut), reverse=True)
    ends = [0.0] * max(1, slots)
    for work in works:
        heapq.heapreplace(ends, ends[0] + work)
    return max(ends)
