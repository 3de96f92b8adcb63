"""--on: who trains the cohorts of `jaxmatch sweep`, `train` or `tune`, if not this process."""

import argparse
import contextlib
import functools
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from jaxmatch.errors import InputError, nearest

KINDS = ("ray",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The option."""
    parser.add_argument(
        "--on",
        metavar="ray[:ADDRESS]",
        help="train on a Ray cluster, which needs jaxmatch[ray]: at HOST:PORT, or the one of this machine",
    )


@contextlib.contextmanager
def engine_of(arguments: argparse.Namespace) -> Iterator[Any]:
    """The engine that a command line asks for; None: this process.

    Raises:
      InputError: there is no such engine, or it is not installed.
    """
    if arguments.on is None:
        yield None
        return
    kind, _, address = arguments.on.partition(":")
    if kind not in KINDS:
        raise InputError(f"cohorts cannot be trained on {kind!r}", remedy=nearest(kind, KINDS))
    from jaxmatch.sweep.on_ray import RayEngine

    engine = RayEngine(address, functools.partial(extend, _absolute(arguments.imports), os.getcwd()))
    try:
        yield engine
    finally:
        engine.close()


def _absolute(imports: Sequence[str]) -> tuple[str, ...]:
    """What --import names, with files by their whole path: a worker is in another folder."""
    return tuple(os.path.abspath(name) if name.endswith(".py") or os.sep in name else name for name in imports)


def extend(imports: Sequence[str], folder: str) -> None:
    """Loads in a worker what the command line and installed packages add (jaxmatch/extend.py)."""
    from jaxmatch import extend

    if folder not in sys.path:
        sys.path.append(folder)
    extend.load_installed()
    for name in imports:
        if name not in _loaded:
            extend.load([name])
            _loaded.add(name)


# A worker may train several cohorts.
_loaded: set[str] = set()
