"""Training of cohorts by several processes: process 0 plans, claims, writes and displays, and the others follow it.

A process that follows reads no data and writes no file. Process 0 sends it the settings and the data of each cohort,
and both train the cohort (see training/hosts.py).
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import jax

import jaxmatch
from jaxmatch.devices import keep_compiled_programs
from jaxmatch.errors import InputError
from jaxmatch.training import hosts
from jaxmatch.training.cohort import Cohort
from jaxmatch.training.hosts import OutOfStep as OutOfStep

_sent: list[str] = []


def versions() -> dict[str, str]:
    """Returns the versions that must be the same on all hosts."""
    return {"jaxmatch": jaxmatch.__version__, "jax": jax.__version__}


def agree_on_versions() -> None:
    """Checks that this process runs the same versions as process 0.

    Raises:
      InputError: the versions differ.
    """
    of_first = hosts.decide(versions)
    if of_first != versions():
        raise InputError(
            f"process 0 runs {_in_words(of_first)}, process {jax.process_index()} {_in_words(versions())}",
            remedy="install the same versions on all hosts",
        )


def _in_words(found: Mapping[str, str]) -> str:
    return " and ".join(f"{name} {version}" for name, version in found.items())


@contextlib.contextmanager
def train_on_all_hosts(settings: Mapping[str, Any], until: int | None, dropped: Mapping[int, Any]) -> Iterator[None]:
    """Makes the other processes train a cohort while process 0 trains it in the block.

    Arguments:
      settings: the arguments of the `Cohort`, without its devices.
      until, dropped: the arguments of `Cohort.train`.

    Raises:
      OutOfStep: training failed in this process.
    """
    if not hosts.is_multiprocess():
        yield
        return
    data = settings["data"]
    known = _sent == [data.content]
    _sent[:] = [data.content]
    hosts.decide(lambda: ({**settings, "data": None if known else data}, until, dropped))
    with hosts.together():
        yield


def dismiss() -> None:
    """Tells the other processes that nothing is left to train."""
    hosts.decide(lambda: None)


class _NoCheckpoints:
    """A stand-in for the checkpoints, which process 0 alone reads and writes."""

    def save(self, number: int, arrays: Any, notes: dict) -> None:
        """Does nothing."""


def follow() -> None:
    """Trains every cohort that process 0 trains, until process 0 says that nothing is left.

    Raises:
      OutOfStep: training failed in this process.
    """
    data = None
    while (work := hosts.decide(lambda: None)) is not None:
        settings, until, dropped = work
        data = settings["data"] or data
        keep_compiled_programs(settings["execution"]["cache_directory"])
        with hosts.together():
            cohort = Cohort(**{**settings, "data": data}, devices=tuple(jax.devices()))
            cohort.train(_NoCheckpoints(), until=until, dropped=dropped)
