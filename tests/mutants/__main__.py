"""Puts each fault of the tables into a copy of the repository, runs the tests named beside it, and says which faults survive.

    python -m tests.mutants                  # all; two at once
    python -m tests.mutants --only cohort    # those whose file has "cohort" in its path

The tests run once without a fault first. The exit status is 1 when a fault survives.
"""

import argparse
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from . import Mutant, all_mutants

ROOT = Path(__file__).parents[2]
PASSED, FAILED = 0, 1  # exit statuses of pytest; any other means that the tests did not run
SECONDS_A_MUTANT = 600


def copied(source: Path, target: Path) -> Path:
    """Copies the files that git knows or does not ignore, and returns the folder of the copies."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=source, capture_output=True, check=True
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (source / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target / name)
    return target


def run_tests(root: Path, tests: Sequence[str], *options: str) -> tuple[int | None, str]:
    """Runs tests and returns the exit status of pytest (None after a timeout) and what it printed."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--durations=0", "-p", "no:cacheprovider", *options, *tests]
    # Python recognizes outdated bytecode by time and size, and a fault can leave both unchanged.
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=SECONDS_A_MUTANT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None, f"no end after {SECONDS_A_MUTANT} s"
    return done.returncode, done.stdout.decode(errors="replace")


def verdict(root: Path, mutant: Mutant) -> str:
    """Tests a fault in the copy at `root`, then removes it. Returns "caught", "survived" or what went wrong."""
    file = root / mutant.file
    original = file.read_text()
    try:
        faulty = mutant.applied(root)
    except ValueError as error:
        return f"not run ({error})"
    try:
        file.write_text(faulty)
        status, _ = run_tests(root, mutant.tests)
    finally:
        file.write_text(original)
    if status is None:
        return "caught"  # the tests hang, which the user would notice
    return {PASSED: "survived", FAILED: "caught"}.get(status, f"not run (pytest's exit status {status})")


def judged(mutants: Sequence[Mutant], source: Path, workers: int) -> list[str]:
    """Returns the verdicts on all faults, in order, and prints each as it comes."""
    verdicts = [""] * len(mutants)
    mine, start = threading.local(), time.monotonic()
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(workers) as pool:

        def judge(position: int) -> int:
            if not hasattr(mine, "root"):
                mine.root = copied(source, Path(tempfile.mkdtemp(dir=scratch)))
            verdicts[position] = verdict(mine.root, mutants[position])
            return position

        futures = [pool.submit(judge, position) for position in range(len(mutants))]
        try:
            for done, future in enumerate(concurrent.futures.as_completed(futures), 1):
                position = future.result()
                left = (time.monotonic() - start) / done * (len(mutants) - done)
                print(f"[{done}/{len(mutants)}, {left / 60:.0f} min left] {shown(mutants[position], verdicts[position])}", flush=True)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return verdicts


def shown(mutant: Mutant, said: str) -> str:
    before, after = (" ".join(text.split()) for text in (mutant.before, mutant.after))
    return f"{said}: {mutant.file}: {before} -> {after or '(nothing)'}"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="faults in files whose path holds the text")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1), help="faults at once (default: %(default)s)")
    arguments = parser.parse_args(words)
    mutants = [mutant for mutant in all_mutants() if arguments.only in mutant.file]
    if not mutants:
        parser.error(f"no fault is in a file whose path holds {arguments.only!r}")
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    print(f"{len(mutants)} faults; first their tests without a fault", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        status, text = run_tests(copied(ROOT, Path(scratch)), tests, "-n", str(arguments.workers))
    if status != PASSED:
        print(text)
        print("the tests fail without a fault", file=sys.stderr)
        return 1
    verdicts = judged(mutants, ROOT, arguments.workers)
    caught = verdicts.count("caught")
    for mutant, said in zip(mutants, verdicts, strict=True):
        if said != "caught":
            print(shown(mutant, said))
    print(f"{caught} of {len(mutants)} faults caught, {len(mutants) - caught} not")
    return 0 if caught == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
