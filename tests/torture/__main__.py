"""Attacks jaxmatch for about 25 minutes and tells what it withstood: `python tests/torture --help`."""

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


def main() -> int:
    """Makes the attacks; 1 if one was not withstood."""
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell started it in the background
        signal.signal(number, signal.default_int_handler)
    arguments = _arguments()
    # Where a user who owns nothing may look.
    with tempfile.TemporaryDirectory(prefix="jaxmatch-torture-") as scratch:
        folder = Path(scratch).resolve()
        os.chmod(folder, 0o755)
        # Commands share compiled programs, and use nothing of the user. XLA without optimizations compiles much less.
        os.environ |= {
            "JAX_PLATFORMS": "cpu",
            "JAX_COMPILATION_CACHE_DIR": str(folder / "programs"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
            "XDG_CACHE_HOME": str(folder / "home"),
            "COLUMNS": "200",
            "XLA_FLAGS": os.environ.get("XLA_FLAGS", "--xla_backend_optimization_level=0"),
            "PYTHONPATH": str(ROOT),
        }
        os.environ.pop("JAXMATCH_DATA", None)
        return _campaign(arguments, folder)


def _campaign(arguments: argparse.Namespace, folder: Path) -> int:
    from torture import answers, bench, damage, inputs, kills, limits, processes, report

    processes.import_everything()
    ready = bench.prepared(folder)
    makers = {
        "kills": kills.attacks,
        "launchers": kills.launcher_attacks,
        "limits": limits.attacks,
        "damage": damage.attacks,
        "inputs": inputs.attacks,
        "answers": answers.attacks,
    }
    command = shlex.join(["python", "tests/torture", *sys.argv[1:]])
    groups: dict[str, report.Group] = {}
    interrupted = False
    try:
        for name, make in makers.items():
            each = [one for one in make(ready) if one.name.startswith(arguments.only)]
            most = math.ceil(len(each) * min(1.0, arguments.scale))
            each = [each[number * len(each) // most] for number in range(most)]  # spread evenly
            began, place = time.monotonic(), folder / name
            place.mkdir()
            results = processes.run_attacks(each, place, arguments.seed)
            for made, (attack, count, problem) in enumerate(results, start=1):
                group = groups.setdefault(name, report.Group())
                group.attacks += count
                group.seconds = round(time.monotonic() - began, 1)
                if problem:
                    group.failed += 1
                    group.failures[attack.name] = problem
                    print(f"FAILED {attack.name}: {problem}", file=sys.stderr, flush=True)
                print(f"{name}: {made} of {len(each)}", end="\r", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        interrupted = True
        print("interrupted; this is what was made so far", file=sys.stderr)
    record = report.values(groups, arguments.seed, command)
    if arguments.output:
        report.write(record, arguments.output)
    print("\n" + report.markdown(record))
    return 1 if interrupted or not groups or any(group.failed for group in groups.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
