"""Measures speed and memory, and writes what it measured as JSON and as tables.

python -m benchmarks                          every item that can run with what was given
python -m benchmarks training inference       these alone
python -m benchmarks --tables                 measures nothing, makes the tables again

On a TPU, give one item a command. Some items start processes that need the device, and a TPU takes only one process.
"""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import device, reports
from benchmarks.item import Settings
from benchmarks.items import ITEMS, paper
from jaxmatch import devices
from jaxmatch.data.catalog import DATA_VARIABLE
from jaxmatch.errors import InputError
from jaxmatch.files import write_atomically

FAILED, WRONG_INPUT, INTERRUPTED = 1, 2, 130


def _at_least_one(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    listing = "\n".join(f"{name:12} {item.title}" for name, item in ITEMS.items())
    parser.add_argument("items", nargs="*", metavar="ITEM", help=f"default: all\n{listing}")
    parser.add_argument(
        "--data-directory", default=os.environ.get(DATA_VARIABLE, ""), help=f"default: ${DATA_VARIABLE}"
    )
    parser.add_argument("--vectors", default="", help="a file of word vectors, also below the data directory")
    parser.add_argument("--peer", default="", help="a checkout of alibaba-edu/simple-effective-text-matching-pytorch")
    parser.add_argument("--before", default="", help="a checkout of an earlier jaxmatch: first_table runs it in turn")
    parser.add_argument("--peer-python", default=sys.executable, help="a Python with what it needs; default: this one")
    parser.add_argument(
        "--rounds", type=_at_least_one, default=9, help="how many times each case is timed; default: %(default)d"
    )
    longest = "replicas: seconds of a step beyond which a point is left out; default: %(default)g"
    parser.add_argument("--longest-step", type=float, default=Settings.longest_step, help=longest)
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes, which show only that a benchmark runs; stores no results"
    )
    parser.add_argument("--results", type=Path, default=reports.RESULTS, help="default: benchmarks/results")
    parser.add_argument("--tables", action="store_true", help="only make the tables again")
    return parser


def _displayed_command(arguments: list[str]) -> str:
    words = reports.with_placeholders(arguments, {"--vectors": lambda file: file.name})
    return shlex.join(["python", "-m", "benchmarks", *words])


def _measure(name: str, settings: Settings, results: Path, command: str) -> None:
    item = ITEMS[name]
    print(f"\n{name}: {item.title}", flush=True)
    load, began = os.getloadavg()[0], time.perf_counter()
    rows, notes = item.run(settings)
    more = {"seconds": round(time.perf_counter() - began, 1), "load_before": round(load, 1)}
    requested = f"{devices.HUGE}=1" in os.environ.get(devices.TUNABLES, "")
    more["huge_pages"] = requested or "[always]" in devices.huge_pages_setting()
    result = reports.result_of(name, item.title, rows, notes, command, **more)
    print(reports.markdown(result, item.columns), flush=True)
    if not settings.quick:
        reports.write_result(results, result)


def tables_of(results: Path) -> str:
    """Returns all results of a folder as Markdown, with one section for each device."""
    columns = {name: item.columns for name, item in ITEMS.items()}
    columns |= {f"device-{name}": own for name, (_, own) in device.STAGES.items()}
    sections = [
        "# Benchmarks: what was measured",
        "Medians; quartiles in brackets. Made by `python -m benchmarks --tables`. Our processes start as the command "
        "`jaxmatch` does, with huge pages where the system has them (from commit 69b17d6 "
        "on). A peer's processes have what ours have where a table's header says so; in older tables they had none. "
        "Older tables are against the public PyTorch RE2 as released, with batches of mixed lengths, and so were the "
        "goals in their records. A table is of the commit that it names: what was changed since is not in it. Tables "
        "were measured hours apart, on a machine whose speed drifts: compare within a row.",
    ]
    for found in reports.read_results(results).values():
        sections.append(f"## {next(iter(found.values()))['device']}")
        sections += [reports.markdown(found[name], own) for name, own in columns.items() if name in found]
    sections.append(
        f"Not measured on an accelerator: the hours for all that RE2's tables train; the goal is {paper.GOAL}. "
        "[Earlier measurements](earlier.md) are of benchmarks that were removed since."
    )
    return "\n\n".join(section.rstrip() for section in sections) + "\n"


def write_tables(results: Path) -> None:
    """Writes `tables_of` a folder as its README.md."""
    write_atomically(results / "README.md", tables_of(results).encode())


def main() -> int:
    arguments = _parser().parse_args()
    # Items start processes that need the same GPU.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    names = arguments.items or list(ITEMS)
    for name in names:
        if name not in ITEMS:
            print(f"benchmarks: there is no item {name!r}; known: {', '.join(ITEMS)}", file=sys.stderr)
            return WRONG_INPUT
    status = 0
    try:
        reports.commit_of_code()  # cached for the results: the code that measures, not what the checkout holds later
        if not arguments.tables:
            status = _measure_all(names, arguments)
        if not arguments.quick:
            write_tables(arguments.results)
    except (InputError, OSError) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return WRONG_INPUT
    return status


def _measure_all(names: Sequence[str], arguments: argparse.Namespace) -> int:
    """Measures items in turn, and stores what each measured. If one fails, the others are still measured.

    Returns:
      the exit status: that of an interrupt, of wrong input for an item that the command names, or of a failure.
    """
    status = 0
    with tempfile.TemporaryDirectory(prefix="jaxmatch-benchmarks-") as scratch:
        settings = Settings(
            data_directory=arguments.data_directory,
            vectors=arguments.vectors,
            peer=arguments.peer,
            peer_python=arguments.peer_python,
            rounds=2 if arguments.quick else arguments.rounds,
            quick=arguments.quick,
            scratch=Path(scratch),
            before=arguments.before,
            longest_step=arguments.longest_step,
        )
        for name in names:
            try:
                if not settings.quick:  # --quick takes embedded data
                    ITEMS[name].check(settings)
                _measure(name, settings, arguments.results, _displayed_command(sys.argv[1:]))
            except InputError as error:
                print(f"benchmarks: {name}: {error}", file=sys.stderr)
                if arguments.items:
                    status = WRONG_INPUT
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:  # of JAX, of the system, of a process
                print(f"benchmarks: {name}: {type(error).__name__}: {error}", file=sys.stderr)
                status = status or FAILED
            except KeyboardInterrupt:
                print(f"benchmarks: interrupted in {name}; what was measured before is stored", file=sys.stderr)
                return INTERRUPTED
    return status


if __name__ == "__main__":
    devices.restart_with_huge_pages()  # as the command `jaxmatch` does
    sys.exit(main())
