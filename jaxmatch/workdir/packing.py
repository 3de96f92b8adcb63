"""The packing of runs into cohorts."""

from collections.abc import Callable, Iterable, Sequence


def pack(
    cohorts: Iterable[tuple[str, Sequence[str]]], wanted: Callable[[str], bool]
) -> list[tuple[str, tuple[str, ...]]]:
    """Packs the wanted runs of some cohorts into as few cohorts as their sizes allow.

    Arguments:
      cohorts: (signature, run names) for each cohort. The largest cohort of a signature determines how many of its runs
        fit.
      wanted: a function that returns whether to keep a run.
    """
    kept: dict[str, list[str]] = {}
    size: dict[str, int] = {}
    for signature, runs in cohorts:
        kept.setdefault(signature, []).extend(run for run in runs if wanted(run))
        size[signature] = max(size.get(signature, 1), len(runs))
    return [
        (signature, tuple(runs[start : start + size[signature]]))
        for signature, runs in kept.items()
        for start in range(0, len(runs), size[signature])
    ]
