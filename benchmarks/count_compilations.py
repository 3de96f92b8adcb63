"""Runs a command of `jaxmatch` in this process, and writes the compilations that JAX reports.

    python benchmarks/count_compilations.py COUNTS.json WORDS...

It imports nothing of this checkout, so that it counts for any version of the package that is in the path.
"""

import json
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def count_compilations(file: Path, words: Sequence[str]) -> int:
    """Writes the function, the seconds, and whether the compilation cache had the program, for each compilation.
    Returns the exit status of the command.
    """
    import jax

    from jaxmatch.cli import main

    found: list[dict[str, Any]] = []
    in_cache = threading.local()  # the threads that compile side by side report their own programs

    def event(name: str, **_: Any) -> None:
        if name == "/jax/compilation_cache/cache_hits":
            in_cache.hit = True

    def duration(name: str, seconds: float, **more: Any) -> None:
        if name == "/jax/core/compile/backend_compile_duration":
            is_read = getattr(in_cache, "hit", False)
            found.append({"function": str(more.get("fun_name", "")), "seconds": seconds, "is_read": is_read})
            in_cache.hit = False

    jax.monitoring.register_event_listener(event)
    jax.monitoring.register_event_duration_secs_listener(duration)
    status = main.main(list(words))
    file.write_text(json.dumps(found))
    return status


if __name__ == "__main__":
    sys.exit(count_compilations(Path(sys.argv[1]), sys.argv[2:]))
