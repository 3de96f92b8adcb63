"""Runs a Ray cluster on this machine, in a process of its own.

    python -m benchmarks.ray_workers CORES

Starts a node on some cores, such as "0" or "0,1", with as many CPUs, and writes the address of the cluster as a line. A
line of standard input with cores adds a node on them. The end of standard input ends the cluster, for example when the
parent process dies.
"""

import os
import signal
import sys
from typing import Any

STORE = 100 * 2**20


def _pinned(cores: str) -> dict[str, Any]:
    """Pins this thread, which starts a node, to some cores, and returns the resources of the node."""
    numbers = {int(core) for core in cores.split(",")}
    os.sched_setaffinity(0, numbers)
    return {"num_cpus": len(numbers), "object_store_memory": STORE}


def main(cores: str) -> None:
    import ray
    from ray.cluster_utils import Cluster

    answers, sys.stdout = sys.stdout, sys.stderr
    head = {**_pinned(cores), "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        print(cluster.address, file=answers, flush=True)
        for line in sys.stdin:
            cluster.add_node(**_pinned(line.strip()))
            print("added", file=answers, flush=True)
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is meant for the benchmark
    main(sys.argv[1])
