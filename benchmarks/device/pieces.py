"""A stage that is measured piece by piece. Each piece has its own process, and is stored as soon as it is known."""

import json
import statistics
import subprocess
from collections.abc import Mapping
from typing import Any

from benchmarks import fresh_process
from benchmarks.accelerators.__main__ import problem_of
from benchmarks.device.budget import Budget, Stage, duration, say


def measure(
    stage: Stage,
    budget: Budget,
    module: str,
    pieces: Mapping[str, Mapping[str, Any]],
    seconds: float,
    environment: Mapping[str, str] | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> None:
    """Measures pieces in their order, as far as the time allows: first those that are missing, then those that were
    measured at another commit, with other versions or with other inputs.

    If a piece that was measured before fails, the earlier result stays.

    A piece is not begun if it would probably last longer than the time that the stage has left. The first piece of a
    stage may use the time that all stages have left. A piece is ended, and lost, at the end of all time. A piece that
    failed is stored with the reason, and the next start tries it again.

    Arguments:
      stage: the stage, which stores the pieces.
      budget: the time.
      module: the module that measures a piece; `benchmarks.fresh_process` starts it.
      pieces: name -> the request to the module.
      seconds: the seconds that a piece is expected to take before one was measured.
      environment: environment variables for the processes that measure.
      inputs: what the pieces are measured with besides the code. It is stored with them.
    """
    inputs = inputs or {}
    found = stage.found()
    lasted = [found[name]["process_seconds"] for name in pieces if "process_seconds" in found.get(name, {})]
    missing = [name for name in pieces if "problem" in found.get(name, {"problem": ""}) and name not in stage.failed]
    tried = {*missing, *stage.failed}
    outdated = [name for name in pieces if name not in tried and not stage.is_current(found[name], inputs)]
    wanted = missing + outdated
    for number, name in enumerate(wanted):
        expected = statistics.median(lasted) if lasted else seconds
        whole = f"{len(wanted) - number} of {len(pieces)} to go, about {duration(expected * (len(wanted) - number))}"
        say(f"{stage.name}: {name} ({whole}; {duration(budget.left())} left of all)")
        # The first piece of a stage may use the time of others, because a short command would otherwise never begin it.
        if expected > (budget.left_to_begin() if found or number else budget.left()):
            say(f"{stage.name}: not begun, it takes about {duration(expected)}")
            return
        try:
            answer = fresh_process.run(module, pieces[name], environment, seconds=budget.left())
            lasted.append(answer["process_seconds"])
            say(f"{stage.name}: {name}: {json.dumps(answer)}")  # for a log, which may be all that comes back
        except subprocess.TimeoutExpired:
            say(f"{stage.name}: {name} did not end in time; the next start measures it again")
            return
        except RuntimeError as error:
            answer = {"problem": problem_of(str(error).partition("\n")[2]) or str(error)}
            say(f"{error}\n{stage.name}: {name}: {answer['problem']}")  # the traceback is stored nowhere else
            stage.failed.add(name)
            if name in outdated:
                continue
        stage.keep({**stage.found(), name: {**answer, **stage.measured_with, **inputs}})
