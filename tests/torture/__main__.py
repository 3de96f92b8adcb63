"""Attacks jaxmatch for about 27 minutes and tells what it withstood: `python tests/torture --help`."""

import argparse
import math
import os
import shlex
import signal
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/torture", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of all random choices; default: 0")
    parser.add_argument("--scale", type=float, default=1.0, help="the share of the attacks that is made; default: 1")
    parser.add_argument("--only", default="", metavar="NAME", help="a group, or what the names of attacks begin with")
    parser.add_argument("--output", type=Path, metavar="DIR", help="keep README.md and torture.json here")
    return parser.parse_args()


def _environment(folder: Path) -> None:
    """What commands find around them: compiled programs are shared, and nothing of the user is used."""
    os.environ |= {
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(folder / "programs"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "XDG_CACHE_HOME": str(folder / "home"),
        "COLUMNS": "200",
        # Much less to compile; a program's meaning is the same without it.
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", "--xla_backend_optimization_level=0"),
        "PYTHONPATH": str(ROOT),
    }
    os.environ.pop("JAXMATCH_DATA", None)


def _spread(attacks: list, scale: float) -> list:
    """A share of the attacks, spread evenly over them."""
    most = max(1, math.ceil(len(attacks) * min(1.0, scale)))
    return [attacks[number * len(attacks) // most] for number in range(most)]


def main() -> int:
    """Makes the attacks; 1 if one was not withstood."""
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell started it in the background
        signal.signal(number, signal.default_int_handler)
    arguments = _arguments()
    # Where a user who owns nothing may look.
    with tempfile.TemporaryDirectory(prefix="jaxmatch-torture-") as scratch:
        folder = Path(scratch).resolve()
        os.chmod(folder, 0o755)
        _environment(folder)
        return _campaign(arguments, folder)


def _campaign(arguments: argparse.Namespace, folder: Path) -> int:
    from torture import GROUPS, attacks, bench, processes, report
    from torture.progress import Progress

    processes.import_everything()
    begun = time.monotonic()
    made_ready = bench.prepared(folder)
    chosen = {}
    for name, module in GROUPS.items():
        all_of_it = module.attacks(made_ready)
        if arguments.only:
            all_of_it = [attack for attack in all_of_it if attack.name.startswith(arguments.only)]
        else:
            all_of_it = _spread(all_of_it, arguments.scale)
        if all_of_it:
            chosen[name] = all_of_it
    if not chosen:
        print(f"no attack's name begins with {arguments.only}", file=sys.stderr)
        return 2
    command = shlex.join(["python", "tests/torture", *sys.argv[1:]])
    groups, progress = {}, Progress({name: sum(attack.weight for attack in each) for name, each in chosen.items()})
    print(f"made ready in {time.monotonic() - begun:.0f} s", flush=True)
    try:
        for name, each in chosen.items():
            began = time.monotonic()
            group = groups[name] = report.Group()
            place = folder / name
            place.mkdir()
            for attack, count, problem in attacks.run_attacks(each, place, arguments.seed):
                group.attacks += count
                group.seconds = round(time.monotonic() - began, 1)
                if problem:
                    group.failed += 1
                    group.failures[attack.name] = problem
                    progress.say(f"FAILED {attack.name}: {problem}")
                progress.made(name, attack.weight)
            _keep(groups, arguments, command)
    except KeyboardInterrupt:
        progress.say("interrupted; this is what was made so far")
        _keep(groups, arguments, command)
    print("\n" + report.markdown(report.values(groups, arguments.seed, command)))
    return 1 if any(group.failed for group in groups.values()) or len(groups) < len(chosen) else 0


def _keep(groups: dict, arguments: argparse.Namespace, command: str) -> None:
    """Writes what is known so far, if asked to."""
    from torture import report

    if arguments.output:
        report.write(report.values(groups, arguments.seed, command), arguments.output)


if __name__ == "__main__":
    sys.exit(main())
