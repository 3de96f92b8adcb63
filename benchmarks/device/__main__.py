"""Takes the measurements that need a device, the most informative first, as far as the time allows.

    make device ARGUMENTS="--data-directory DATA --vectors FILE --peer CHECKOUT"
    make device ARGUMENTS="--minutes 9"       # where a command may not last longer; give it again until all is done
    make device ARGUMENTS="--minutes 9 compiled"         # this stage alone
    python -m benchmarks.device --minutes 9              # the same with a JAX that sees the device, where pip cannot
                                                         # install one
    make device ARGUMENTS=--quick             # on any machine, in two minutes: only whether it runs
    make device ARGUMENTS=--tables            # measures nothing, makes the tables again

Stages, in their order:

    compiled       programs of RE2, CSRAN, ESAN and CAFE: memory, kernels, bytes, time; with the bound, and what is
                   known without a device
    dispatched     a step of RE2, one and many in a dispatch
    replicas       one run and ten of RE2 on SNLI text, compared with the public PyTorch RE2 (needs snli_1.0)
    wikiqa         ten seeds of RE2 on WikiQA, in the setting of the TensorFlow code (needs WikiQACorpus)
    depth          CSRAN with one to five layers: on SciTail (SciTailV1.1), else on generated pairs
    more-replicas  2 to 64 runs of RE2 on SNLI text

At first, each stage has a share of the time (stages.py). The time that is left then goes to the stages that are not
done. All results are stored as soon as they are known, and the same command resumes where it ended, for whatever
reason. Sweeps read the original files: the cache of encoded data is found by the content of these files, and does not
replace them. Of WikiQACorpus, the .txt and .ref files suffice.
"""

import argparse
import dataclasses
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks import fresh_process, reports
from benchmarks.accelerators.__main__ import problem_of
from benchmarks.device import tables
from benchmarks.device.budget import Budget, Stage, duration, say
from benchmarks.device.stages import STAGES, Plan, missing_for_sweeps, peer_problem
from benchmarks.item import Settings
from benchmarks.placeholders import with_placeholders
from jaxmatch.data.places import DATA_VARIABLE, vectors_file
from jaxmatch.data.vectors import HASHED, NO_VECTORS
from jaxmatch.errors import InputError

RESULTS = reports.RESULTS / "device"
MINUTES, QUICK_MINUTES = 25.0, 2.0
# A driver that does not answer within this time counts as hanging.
SECONDS_TO_FIND_A_DEVICE = 180.0
INTERRUPTED, WRONG_INPUT = 130, 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.device", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("stages", nargs="*", metavar="STAGE", help="default: all")
    parser.add_argument(
        "--minutes", type=float, help=f"no longer than this; default: {MINUTES:g}, with --quick {QUICK_MINUTES:g}"
    )
    parser.add_argument(
        "--data-directory", default=os.environ.get(DATA_VARIABLE, ""), help=f"default: ${DATA_VARIABLE}"
    )
    parser.add_argument("--vectors", default="", help="a file of word vectors, also below the data directory")
    parser.add_argument("--peer", default="", help="a checkout of alibaba-edu/simple-effective-text-matching-pytorch")
    parser.add_argument("--peer-python", default=sys.executable, help="a Python with what it needs; default: this one")
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes, also on a CPU; the results stay in the working folder"
    )
    parser.add_argument(
        "--workdir", type=Path, help="keeps the sweeps; default: runs/device, with --quick runs/device-quick"
    )
    parser.add_argument("--results", type=Path, help="default: benchmarks/results/device")
    parser.add_argument("--commit", default="", help="of this code, where git does not know it")
    parser.add_argument("--tables", action="store_true", help="only make the tables again")
    return parser


def main(words: list[str] | None = None) -> int:
    words = sys.argv[1:] if words is None else words
    arguments = _parser().parse_args(words)
    arguments.workdir = (
        arguments.workdir or fresh_process.ROOT / "runs" / ("device-quick" if arguments.quick else "device")
    ).resolve()
    arguments.results = arguments.results or (arguments.workdir / "results" if arguments.quick else RESULTS)
    try:
        if arguments.quick and not arguments.tables:
            _check_no_full_results(arguments.results)
        if not arguments.tables:
            _measure(arguments, shlex.join(["python", "-m", "benchmarks.device", *with_placeholders(words)]))
        tables.write(arguments.results)
    except InputError as error:
        print(f"benchmarks.device: {error}", file=sys.stderr)
        return WRONG_INPUT
    except KeyboardInterrupt:
        print("benchmarks.device: interrupted; run the same command to resume", file=sys.stderr)
        return INTERRUPTED
    return 0


def _check_no_full_results(folder: Path) -> None:
    """Checks that tiny sizes would not replace results of full size.

    Arguments:
      folder: the folder of all results, or of the results of one device.

    Raises:
      InputError: the folder has results of full size.
    """
    for file in (*folder.glob("*.json"), *folder.glob("*/*.json")):
        kept = reports.read_result(file)
        if "stage" in kept and not kept["quick"]:
            problem = f"{folder} has results of full size, which --quick would replace"
            raise InputError(problem, remedy="leave out --results, or name another folder")


def _measure(arguments: argparse.Namespace, command: str) -> None:
    """Runs the stages.

    Raises:
      InputError: a stage does not exist, the number of minutes is not positive, JAX finds no accelerator, or git does
        not know the commit.
    """
    for name in arguments.stages:
        if name not in STAGES:
            raise InputError(f'there is no stage "{name}"', remedy=f"known: {', '.join(STAGES)}")
    minutes = arguments.minutes if arguments.minutes is not None else QUICK_MINUTES if arguments.quick else MINUTES
    if not minutes > 0:
        raise InputError("--minutes must be more than 0", remedy=f"leave it out: {MINUTES:g}")
    budget = Budget(60 * minutes)
    device = _device()
    if device["platform"] == "cpu" and not arguments.quick:
        raise InputError("JAX finds no accelerator here", remedy="--quick tries the measurements on a CPU")
    about = {name: device[name] for name in ("device", "driver", "versions")}
    about |= {"commit": arguments.commit or reports.commit_of_code(), "command": command, "quick": arguments.quick}
    if not about["commit"] and not arguments.quick:
        raise InputError("git does not know the commit of this code", remedy="give it: --commit COMMIT")
    say(f"{about['device']}; {about['driver']}; jax {about['versions']['jax']}; {duration(budget.left())}")
    with tempfile.TemporaryDirectory(prefix="jaxmatch-device-") as scratch:
        settings = _settings(arguments, Path(scratch), device["platform"])
        folder = arguments.results / reports.folder_of(about["device"])
        stages = {}
        for name in arguments.stages or [name for name in STAGES if not (arguments.quick and name == "more-replicas")]:
            _, needed, _ = STAGES[name]
            if needed and not arguments.quick and (problem := missing_for_sweeps(settings, needed)):
                say(f"{name}: skipped: {problem}")
            else:
                stages[name] = Stage(folder, name, about, lambda: tables.write(arguments.results))
        for name in stages:
            say(f"{name}: {' '.join(STAGES[name][0].__doc__.split())}")
        for name, part in [*shares(stages).items(), *dict.fromkeys(stages, 1.0).items()]:
            measure, *_ = STAGES[name]
            measure(Plan(settings, arguments.workdir, budget.share(part), device["platform"]), stages[name])


def _device() -> dict[str, Any]:
    """Returns the answer of `benchmarks.device.about`.

    Raises:
      InputError: JAX fails, or a driver does not answer it.
    """
    try:
        return fresh_process.run("benchmarks.device.about", {}, seconds=SECONDS_TO_FIND_A_DEVICE)
    except subprocess.TimeoutExpired:
        problem, remedy = f"JAX has not found a device in {SECONDS_TO_FIND_A_DEVICE:.0f} s", "see what nvidia-smi says"
    except RuntimeError as error:
        problem, remedy = f"JAX cannot list its devices: {problem_of(str(error))}", "jaxmatch devices says more"
    raise InputError(problem, remedy=remedy)


def shares(names: Iterable[str]) -> dict[str, float]:
    """Returns the share of the time that each stage has at first, of the time that is left when its turn comes. Stages
    without a share are left out.
    """
    minutes = {name: STAGES[name][2] for name in names}
    found = {}
    for place, (name, own) in enumerate(minutes.items()):
        if own:
            found[name] = own / sum(list(minutes.values())[place:])
    return found


def _settings(arguments: argparse.Namespace, scratch: Path, platform: str) -> Settings:
    """Returns the settings. Their paths are absolute, because processes are started in other folders. A peer that
    cannot run is left out, with a message.
    """
    directory = str(Path(arguments.data_directory).resolve()) if arguments.data_directory else ""
    vectors = vectors_file(arguments.vectors, directory)
    settings = Settings(
        data_directory=directory,
        vectors=vectors if vectors in ("", HASHED, NO_VECTORS) else str(Path(vectors).absolute()),
        peer=str(Path(arguments.peer).resolve()) if arguments.peer else "",
        peer_python=arguments.peer_python,
        rounds=1 if arguments.quick else 9,
        quick=arguments.quick,
        scratch=scratch,
    )
    if problem := peer_problem(settings, platform):
        say(f"without the public PyTorch RE2: {problem}")
        settings = dataclasses.replace(settings, peer="")
    return settings


if __name__ == "__main__":
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a process in the background ignores SIGINT, and so would its sweeps
    sys.exit(main())
