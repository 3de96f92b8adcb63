"""--distributed: one process on each host. Together they run one `jaxmatch sweep`, `train` or `tune`."""

import argparse
import contextlib
import functools
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from jaxmatch.errors import InputError

# How long processes wait for each other at the start, and for the heartbeat of a process that may have died.
SECONDS_TO_START, SECONDS_WITHOUT_HEARTBEAT = 300, 20
# Not empty once no process waits for another, so that all can disconnect. A list, because functions change it.
_all_released: list[bool] = []

# A filter program for what XLA and Gloo write past Python. XLA's messages about other processes are pages long and hold
# a stack; the program replaces them by one line.
FILTER = r"""
import re, sys
reported = of_others = False
for line in sys.stdin.buffer:
    if re.match(rb"[IWEF]\d{4} [\d:.]+ ", line):
        of_others = bool(re.search(rb"coordination_service|preemption_sync_manager|[ /]client\.h:", line))
        if of_others and line.startswith(b"F") and not reported:
            reported = True
            sys.stderr.write("jaxmatch: " + sys.argv[1] + "\n")
    # Several threads of Gloo may write at the same time. A line then has pieces of several messages, or only a number.
    of_gloo = re.search(rb"\[Gloo\] Rank|peer ranks", line) or re.fullmatch(rb"(is connected to|[\s\d.:])*", line)
    if not of_others and not reported and not of_gloo:
        sys.stderr.buffer.write(line)
    sys.stderr.flush()
"""
_ENDED = (
    "another process of this command has ended; run the same command on all hosts to resume from the last checkpoint"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a command that several hosts run as one."""
    parser.add_argument(
        "--distributed", action="store_true", help="run as one process of a multi-process (multi-host) training"
    )
    parser.add_argument(
        "--coordinator", metavar="ADDRESS", help="with --distributed: HOST:PORT of process 0 (default: JAX detects it)"
    )
    for name, what in (("processes", "number of processes"), ("process", "index of this process, from 0")):
        parser.add_argument(
            f"--{name}", type=int, metavar="N", help=f"with --distributed: {what} (default: JAX detects it)"
        )


def on_all_hosts(run: Callable[[argparse.Namespace], None]) -> Callable[[argparse.Namespace], None]:
    """Wraps a subcommand so that process 0 runs it, and the other processes take part in its training."""

    @functools.wraps(run)
    def wrapped(arguments: argparse.Namespace) -> None:
        if not arguments.distributed:
            for name in ("coordinator", "processes", "process"):
                if getattr(arguments, name) is not None:
                    raise InputError(f"--{name} needs --distributed")
            return run(arguments)
        _join(arguments)
        import jax

        from jaxmatch.sweep import several_hosts

        several_hosts.agree_on_versions()
        if jax.process_index():
            several_hosts.follow()
        else:
            try:
                run(arguments)
            except Exception as error:
                if not isinstance(error, several_hosts.OutOfStep):
                    several_hosts.dismiss()
                    _all_released.append(True)
                raise
            several_hosts.dismiss()
        _all_released.append(True)

    return wrapped


def exit_if_needed(status: int, interrupted: bool) -> None:
    """Exits directly if this process uses JAX and was interrupted, or if other processes may wait for it. Otherwise it
    returns.

    After a return, Python exits as usual. Several processes that no longer wait for each other disconnect before they
    return. A process that was interrupted does not wait for the others. An interrupt does not stop threads in which JAX
    compiles or computes, and Python's own exit can crash while they run.
    """
    jax = sys.modules.get("jax")
    several = jax is not None and jax.distributed.is_initialized()
    if several and _all_released:
        jax.distributed.shutdown()
        return
    if jax is None or not (several or interrupted):
        return
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    os._exit(status)


def _join(arguments: argparse.Namespace) -> None:
    """Connects this process to the other processes of the command.

    Raises:
      InputError: the processes cannot connect to each other, or --on also requests other workers.
    """
    if arguments.on is not None:
        raise InputError("--on and --distributed cannot be combined", remedy="give one of them")
    import jax

    address = arguments.coordinator or os.environ.get("JAX_COORDINATOR_ADDRESS")
    if address is not None and not address.rpartition(":")[2].isdigit():
        raise InputError(f"--coordinator {address} is not an address", remedy="give HOST:PORT of process 0")
    if address and arguments.process:
        _wait_for(address)
    _filter_output()
    # Without this timer, JAX would end the process and print a stack.
    waiting = threading.Timer(SECONDS_TO_START, _connection_timed_out)
    waiting.daemon = True
    waiting.start()
    try:
        jax.distributed.initialize(
            address,
            arguments.processes,
            arguments.process,
            initialization_timeout=2 * SECONDS_TO_START,
            heartbeat_timeout_seconds=SECONDS_WITHOUT_HEARTBEAT,
            shutdown_timeout_seconds=SECONDS_WITHOUT_HEARTBEAT,
        )
    except (ValueError, TypeError, RuntimeError, OSError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(
            f"the processes cannot connect to each other ({reason})",
            remedy="give --coordinator HOST:PORT, --processes N and --process I",
        ) from None
    finally:
        waiting.cancel()


def _connection_timed_out() -> None:
    """Prints an error, and ends this process, which cannot be interrupted while it waits."""
    error = InputError("not all processes have connected", remedy="start the same command on every host")
    sys.stderr.write(f"jaxmatch: {error}\n")
    os._exit(2)


def _wait_for(address: str) -> None:
    """Waits until the coordinator listens at the address. JAX itself would end the process instead of raising an error.

    Raises:
      InputError: the coordinator does not listen within `SECONDS_TO_START`, or the address does not exist.
    """
    host, _, port = address.rpartition(":")
    end = time.monotonic() + SECONDS_TO_START
    while True:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
            return
        except (OSError, OverflowError) as error:
            if time.monotonic() > end or isinstance(error, (socket.gaierror, OverflowError)):
                raise InputError(
                    f"no answer at the coordinator's address {address} ({error})",
                    remedy="start the same command with --process 0 there",
                ) from None
        time.sleep(0.5)


def _filter_output() -> None:
    """Filters what libraries write to the descriptors of standard output and error, and sends it to standard error."""
    if sys.stdout is None or sys.stderr is None:
        return
    sys.stdout.flush()
    words = [sys.executable, "-S", "-c", FILTER, _ENDED]
    reader = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        how = {"encoding": stream.encoding, "errors": stream.errors, "buffering": 1 if name == "stderr" else -1}
        own = open(os.dup(stream.fileno()), "w", **how)  # stays open until the process ends
        os.dup2(reader.stdin.fileno(), stream.fileno())
        setattr(sys, name, own)
    reader.stdin.close()
