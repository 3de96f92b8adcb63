"""A Slurm cluster of two nodes on this machine: munged, slurmctld and two slurmd, with all their files in one folder.

    apt-get install slurm-wlm

The daemons run in the foreground as children of this process, without systemd. They need root, as slurmd does.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")
PATH = f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin"
CONFIGURATION = """
ClusterName=jaxmatch
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=1
SlurmdTimeout=300
SchedulerParameters=sched_interval=1,bf_interval=1
KillWait=5
InactiveLimit=0
{nodes}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE PriorityTier=1 GraceTime=10 State=UP
PartitionName=urgent Nodes=n1,n2 MaxTime=INFINITE PriorityTier=2 State=UP
"""


def missing_requirement() -> str:
    """Returns the reason why no cluster can run here, or ""."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if missing:
        return f"Slurm is not installed ({', '.join(missing)}): apt-get install slurm-wlm"
    return "" if os.geteuid() == 0 else "the daemons of Slurm need root"


def _free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Nodes:
    """A running cluster with the nodes n1 and n2.

    Arguments:
      folder: the folder for all files of the cluster.

    Attributes:
      variables: environment variables that commands of Slurm need.
    """

    def __init__(self, folder: Path):
        folder.mkdir(parents=True)
        folder.chmod(0o755)
        self._folder, self._daemons = folder, []
        host = socket.gethostname().partition(".")[0]
        control, *ports = _free_ports(3)
        cpus = os.cpu_count() or 1
        nodes = "\n".join(
            f"NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} State=UNKNOWN"
            for number, port in enumerate(ports, 1)
        )
        configuration = folder / "slurm.conf"
        configuration.write_text(CONFIGURATION.format(host=host, control=control, folder=folder, nodes=nodes))
        self.variables = {"PATH": PATH, "SLURM_CONF": str(configuration)}
        for name in ("state", "spool-n1", "spool-n2"):
            (folder / name).mkdir()
        (folder / "munge.key").write_bytes(os.urandom(1024))
        (folder / "munge.key").chmod(0o400)
        try:
            files = {"socket": "munge.socket", "key-file": "munge.key", "pid-file": "munged.pid"}
            files |= {"seed-file": "munge.seed", "log-file": "munged.log"}
            self._start(
                "munged", "--foreground", "--force", *(f"--{key}={folder}/{file}" for key, file in files.items())
            )
            self._until(lambda: (folder / "munge.socket").exists(), "munged")
            self._start("slurmctld", "-D", "-c")
            for node in ("n1", "n2"):
                self._start("slurmd", "-D", "-c", "-N", node)
            self._until(lambda: self.states() == {"n1": "idle", "n2": "idle"}, "the nodes")
        except BaseException:
            self.close()
            raise

    def _start(self, *words: str) -> None:
        with open(self._folder / f"{len(self._daemons)}-{words[0]}.out", "ab") as log:
            process = subprocess.Popen(words, env={**os.environ, **self.variables}, stdout=log, stderr=log)
        self._daemons.append(process)

    def _until(self, condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while not condition():
            dead = [process.args[0] for process in self._daemons if process.poll() is not None]
            assert not dead and time.monotonic() < end, f"{what} did not come (ended: {dead}): {self.logs()}"
            time.sleep(0.2)

    def logs(self) -> str:
        """Returns the last lines of the logs of all daemons."""
        files = sorted((*self._folder.glob("*.log"), *self._folder.glob("*.out")))
        return "\n".join(f"{file.name}: {file.read_text(errors='replace')[-1500:]}" for file in files)

    def run(self, *words: str, check: bool = True) -> str:
        """Runs a command of Slurm and returns its output."""
        done = subprocess.run(words, env={**os.environ, **self.variables}, capture_output=True, text=True, timeout=60)
        assert not check or done.returncode == 0, (words, done.stderr, self.logs())
        return done.stdout

    def states(self) -> dict[str, str]:
        """Returns node -> state, for example "idle" or "down"."""
        lines = self.run("sinfo", "--noheader", "--Node", "--format", "%N %t", check=False).splitlines()
        return dict(line.split() for line in lines)

    def close(self) -> None:
        """Ends the jobs and the daemons."""
        if len(self._daemons) > 1:
            self.run("scancel", "--user", "root", "--signal=KILL", "--full", check=False)
            time.sleep(1.0)
        for process in reversed(self._daemons):
            process.terminate()
        for process in reversed(self._daemons):
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
