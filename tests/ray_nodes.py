"""A Ray cluster of several nodes on this machine, which a separate program holds.

    python ray_nodes.py NODES

The program writes the address as a line. It reads commands from standard input: a line with the number of a node kills
that node at once, like a power cut. The end of standard input ends all nodes. If $NODE_FOLDERS is set, each node has
its own temporary folder below it.
"""

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

STORE = 100 * 2**20


class Nodes:
    """A running cluster.

    Arguments:
      count: the number of nodes, each with one CPU.
      **variables: environment variables of the nodes.

    Attributes:
      address: the address of the head node.
    """

    def __init__(self, count: int, **variables: str):
        words = [sys.executable, __file__, str(count)]
        environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", **variables}
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, (variables.get("PYTHONPATH"), str(Path(__file__).parent.parent)))
        )
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
            cwd="/",  # not the working folder of a command
        )
        self.address = self._process.stdout.readline().strip()

    def remove(self, number: int) -> None:
        """Kills a node without notice. `number` must not be 0, which is the head node."""
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline().strip() == "removed"

    def workers(self) -> list[int]:
        """Returns the processes that train a cohort now."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                title = (folder / "cmdline").read_bytes().replace(b"\0", b" ").strip()
                if title == b"ray::_train" and self._process.pid in _ancestors(int(folder.name)):
                    found.append(int(folder.name))
        return found

    def close(self) -> None:
        """Ends all nodes."""
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()


def _ancestors(process: int) -> Iterator[int]:
    while process > 1:
        yield process
        process = int((Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[1])


def main(count: int) -> None:
    import ray
    from ray.cluster_utils import Cluster

    folders = itertools.count()

    def use_own_folder() -> None:
        if below := os.environ.get("NODE_FOLDERS"):
            folder = Path(below) / str(next(folders))
            folder.mkdir()
            # The names of Ray's own sockets would be too long in that folder.
            os.environ.update(TMPDIR=str(folder), RAY_TMPDIR=tempfile.gettempdir())

    sizes = {"num_cpus": 1, "object_store_memory": STORE}
    address_line, sys.stdout = sys.stdout, sys.stderr
    use_own_folder()
    cluster = Cluster(initialize_head=True, head_node_args={**sizes, "include_dashboard": False})
    nodes = [cluster.head_node]
    for _ in range(count - 1):
        use_own_folder()
        nodes.append(cluster.add_node(**sizes))
    print(cluster.address, file=address_line, flush=True)
    for line in sys.stdin:
        cluster.remove_node(nodes[int(line)], allow_graceful=False)
        print("removed", file=address_line, flush=True)
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt from a terminal is meant for the tests
    main(*map(int, sys.argv[1:]))
