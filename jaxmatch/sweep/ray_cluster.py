"""Connection to a Ray cluster, and checks of the cluster before anything is planned or written there.

This module is imported only with `--on ray`, because Ray is an optional dependency.
"""

import contextlib
import logging
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxmatch.errors import InputError, NotInstalled, first_line
from jaxmatch.store import Store
from jaxmatch.sweep import worker

SECONDS_TO_ANSWER = 10.0
# The health check is a process that imports Ray, which takes long on a slow file system.
SECONDS_FOR_HEALTH = 60.0
SECONDS_TO_PROBE = 120.0
ADDRESS_VARIABLE = "RAY_ADDRESS"
TOKEN = ".reached-"


def import_ray() -> Any:
    """Imports and returns Ray.

    Raises:
      InputError: Ray is not installed.
    """
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise NotInstalled("--on ray", "Ray", "ray") from None
    return ray


def connect(address: str) -> Any:
    """Connects this process, as a driver, to a running cluster.

    Arguments:
      address: HOST:PORT of the head of the cluster. "" means the address in $RAY_ADDRESS or, if that is unset or
        "auto", the address of the cluster that runs on this machine.

    Raises:
      InputError: no cluster runs at the address, or it runs another version of Ray or Python.
    """
    ray = import_ray()
    if ray.is_initialized():
        return ray
    from_variable = os.environ.get(ADDRESS_VARIABLE, "")
    if from_variable == "auto":
        from_variable = ""
    place = address or from_variable or _of_this_machine()
    if not place:
        raise InputError(
            "no Ray runs on this machine", remedy="start one with ray start --head, or give --on ray:HOST:PORT"
        )
    _check_address(place, of_variable=bool(from_variable) and not address)
    _check_answers(place)
    _keep_quiet()
    try:
        ray.init(
            address=place,
            log_to_driver=False,
            logging_level=logging.CRITICAL,
            runtime_env={"env_vars": worker.variables()},
        )
    except (Exception, SystemExit) as error:
        raise InputError(
            f"Ray at {place} cannot be used ({first_line(error)})",
            remedy="start this command on a machine of the cluster, with its version of Ray and Python",
        ) from None
    return ray


def _of_this_machine() -> str:
    """Returns the address of the cluster that this machine is part of, or ""."""
    import ray._private.utils

    return ray._private.utils.read_ray_address() or ""


def _check_address(place: str, of_variable: bool) -> None:
    """Checks that an address has the form HOST:PORT.

    Raises:
      InputError: the address has another form. The message names $RAY_ADDRESS if the address comes from there.
    """
    host, _, port = place.rpartition(":")
    if "://" not in place and host and port.isdigit():
        return
    if of_variable:  # the variable may be set for other tools of Ray
        place, remedy = f"{ADDRESS_VARIABLE}={place}", "unset it, or give --on ray:HOST:PORT of its head"
    else:
        remedy = "give --on ray:HOST:PORT of its head"
    raise InputError(f"{place} is not an address of a Ray cluster", remedy=remedy)


def _check_answers(place: str) -> None:
    """Checks that Ray answers at an address. If it does not, `ray.init` waits for minutes and ends the process.

    Raises:
      InputError: no process answers in time, or the one that answers is not Ray, is too busy or requires another token.
    """
    remedy = "start it with ray start --head, or give --on ray:HOST:PORT of a running one"
    host, _, port = place.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS_TO_ANSWER).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"no answer from Ray at {place} ({error})", remedy=remedy) from None
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--skip-version-check", "--address", place]
    try:
        subprocess.run(command, capture_output=True, timeout=SECONDS_FOR_HEALTH, check=True)
    except subprocess.TimeoutExpired:
        raise InputError(
            f"{place} does not answer as Ray within {SECONDS_FOR_HEALTH:.0f} seconds",
            remedy="see ray status there, and try again",
        ) from None
    except (OSError, subprocess.SubprocessError) as error:
        if b"AuthenticationError" in (getattr(error, "stderr", None) or b""):
            raise InputError(
                f"Ray at {place} requires a token",
                remedy="set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to its token if ~/.ray/auth_token has another",
            ) from None
        raise InputError(f"{place} answers, but is not Ray or is too busy", remedy=remedy) from None


def _keep_quiet() -> None:
    """Keeps Ray from printing to standard output, which is reserved for the table.

    Ray prints pages about nodes that die. The display of a cohort shows what matters about them.
    """
    import ray._private.worker

    if hasattr(ray._private.worker, "print_to_stdstream"):
        ray._private.worker.print_to_stdstream = lambda *arguments, **options: None


def nodes(ray: Any) -> list[Mapping[str, Any]]:
    """Returns the living nodes that have CPUs or GPUs for tasks."""
    alive = (node for node in ray.nodes() if node["Alive"])
    return [node for node in alive if node["Resources"].get("CPU", 0) >= 1 or node["Resources"].get("GPU", 0) >= 1]


def living_nodes(ray: Any) -> list[Mapping[str, Any]]:
    """Returns the nodes as `nodes` does, but at least one.

    Raises:
      InputError: there is none.
    """
    if not (living := nodes(ray)):
        raise InputError("no node of the Ray cluster has a CPU or GPU for tasks", remedy="add one with ray start")
    return living


def check_workers(ray: Any, workdir: Path | None, store: Store | None = None) -> None:
    """Starts a worker on every node and compares it with this process.

    Arguments:
      ray: the `ray` module, connected to the cluster.
      workdir: the working folder of the sweep, which every worker must reach. None means that this is not checked.
      store: an object store that every worker must be able to use.

    Raises:
      InputError: no node can run a task, or a worker cannot be started, lacks the package, has other versions, or does
        not reach the folder or the store.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    living = living_nodes(ray)
    probe = ray.remote(num_cpus=0, max_retries=0)(_probe())
    with _token(workdir) as (file, content), store.token() if store else contextlib.nullcontext() as token:
        probes = {}
        for node in living:
            place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            probes[probe.options(scheduling_strategy=place).remote(file, content, store and store.url, token)] = node[
                "NodeManagerHostname"
            ]
        answered = 0
        for answer, host in probes.items():
            try:
                probe_result = ray.get(answer, timeout=SECONDS_TO_PROBE)
            except (ray.exceptions.TaskUnschedulableError, ray.exceptions.NodeDiedError):
                continue  # the node died, and Ray has only just noticed it
            except ray.exceptions.RayError as error:
                raise InputError(
                    f"no worker can be started on {host} ({first_line(getattr(error, 'cause', None) or error)})",
                    remedy="see Ray's logs on that node",
                ) from None
            _check_worker(host, probe_result, workdir)
            answered += 1
        if not answered:
            raise InputError("no node of the Ray cluster answers", remedy="see ray status")


def _probe() -> Callable[..., dict[str, Any]]:
    """Returns the function that checks a worker.

    It is a nested function, which Ray sends by its code, because the worker may lack this package.
    """

    def probe(file: str, content: str, store: str | None, token: Any) -> dict[str, Any]:
        try:
            from jaxmatch.sweep import worker

            probe_result: dict[str, Any] = {"versions": worker.versions()}
        except ImportError as error:
            return {"missing": str(error)}
        if file:
            try:
                with open(file, "r+", encoding="utf-8") as shared:
                    probe_result["read"] = shared.read(len(content)) == content
                    shared.write(".")
            except OSError as error:
                probe_result["read"] = f"{type(error).__name__}: {error.strerror}"
        if store:
            from jaxmatch.errors import InputError
            from jaxmatch.store import Store

            try:
                Store(store).check(token)
            except InputError as error:
                probe_result["store"] = error.problem, error.remedy
        return probe_result

    return probe


def _check_worker(host: str, probe_result: Mapping[str, Any], workdir: Path | None) -> None:
    if "missing" in probe_result:
        raise InputError(
            f"the workers on {host} cannot import this package ({probe_result['missing']})",
            remedy="install it, with the same versions, in the Python that Ray runs there",
        )
    worker_versions = probe_result["versions"]
    different = [
        f"{name} {worker_versions.get(name)} (here {version})"
        for name, version in worker.versions().items()
        if worker_versions.get(name) != version
    ]
    if different:
        raise InputError(f"the workers on {host} run {', '.join(different)}", remedy="install the same versions there")
    if "store" in probe_result:
        problem, remedy = probe_result["store"]
        raise InputError(f"the workers on {host} cannot use --store: {problem}", remedy=f"there, {remedy}")
    if workdir is not None and probe_result["read"] is not True:
        raise InputError(
            f"the workers on {host} do not reach this folder",
            path=workdir,
            remedy="give a --workdir on a file system that all nodes share",
        )


@contextlib.contextmanager
def _token(workdir: Path | None) -> Iterator[tuple[str, str]]:
    """Writes a file that workers must read and append to, and yields its path and its content.

    The file, and the folders that were created for it, are removed at the end.
    """
    if workdir is None:
        yield "", ""
        return
    missing = [folder for folder in (workdir, *workdir.parents) if not folder.exists()]
    content = secrets.token_hex(16)
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        file = workdir / f"{TOKEN}{content[:8]}"
        file.write_text(content)
        try:
            yield str(file), content
        finally:
            file.unlink(missing_ok=True)
    finally:
        for folder in missing:
            with contextlib.suppress(OSError):  # another process uses the folder by now
                folder.rmdir()
