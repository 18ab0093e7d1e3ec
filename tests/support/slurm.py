"""A real Slurm with two nodes on this host, for tests; as root, with Debian's packages."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged", "setpriv")

CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
SlurmctldPort={port}
ReturnToService=2
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SlurmdParameters=config_overrides
SlurmctldParameters=node_reg_mem_percent=1
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=2,max_array_tasks=1000
KillWait=5
MinJobAge=300
SlurmdTimeout=10
SlurmctldTimeout=10
MessageTimeout=10
InactiveLimit=0
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=1 RealMemory=4000 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=1 RealMemory=4000 State=UNKNOWN
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Why Slurm cannot run here; empty if it can."""
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    if lacking:
        return f"Slurm is not installed: {', '.join(lacking)}"
    return "" if os.geteuid() == 0 else "Slurm's daemons need root"


class Cluster:
    """A Slurm of two nodes with one core each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.conf = folder / "slurm.conf"

    def start(self) -> None:
        for name in ("state", "munge"):
            (self.folder / name).mkdir()
        self.folder.chmod(0o755)
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        for path in (key, key.parent):
            shutil.chown(path, "munge", "munge")
        munge = self.folder / "munge"
        files = [f"--{name}={munge / name.removesuffix('-file')}" for name in ("pid-file", "log-file", "seed-file")]
        words = ["setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "munged", "--force"]
        _call(*words, f"--key-file={key}", f"--socket={munge / 'socket'}", *files)
        ports = dict(zip(("port", "first", "second"), _free_ports(3), strict=True))
        self.conf.write_text(CONF.format(host=socket.gethostname(), folder=self.folder, **ports))
        self.start_controller()
        for node in ("n1", "n2"):
            self.start_node(node)
        self.wait_until_idle()

    def start_controller(self) -> None:
        _call("slurmctld", "-f", str(self.conf))

    def start_node(self, node: str) -> None:
        _call("slurmd", "-f", str(self.conf), "-N", node)

    def wait_until_idle(self, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            # By their words: `--states=idle` counts drained nodes, too.
            if self.call("sinfo", "--noheader", "--Node", "--format=%t").split() == ["idle", "idle"]:
                return
            time.sleep(0.2)
        raise RuntimeError(self.describe())

    def recover(self) -> None:
        """Two idle nodes and no job, whatever the test before has done to them."""
        self.call("scancel", "--user=root")
        for node in ("n1", "n2"):
            if not self._is_alive(f"slurmd-{node}"):
                self.start_node(node)
        with suppress(RuntimeError):
            self.wait_until_idle(seconds=10)
            return
        # Slurm drains a node on which a job failed to start, for example after its controller has lost its memory.
        self.call("scontrol", "update", "nodename=n1,n2", "state=resume")
        self.wait_until_idle()

    def describe(self) -> str:
        """Nodes, jobs and the end of the controller's log."""
        shown = [self.call("sinfo", "--list-reasons"), self.call("sinfo"), self.call("squeue", "--states=all")]
        return "\n".join([*shown, (self.folder / "slurmctld.log").read_text()[-2000:]])

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Kill a daemon: slurmctld, slurmd-n1 or slurmd-n2."""
        with suppress(OSError, ValueError):
            os.kill(int((self.folder / f"{name}.pid").read_text()), number)

    def _is_alive(self, name: str) -> bool:
        try:
            os.kill(int((self.folder / f"{name}.pid").read_text()), 0)
        except (OSError, ValueError):
            return False
        return True

    def lose(self, node: str) -> None:
        """Kill a node's daemon and all processes of its jobs, as a power cut would."""
        self.kill(f"slurmd-{node}")
        for script in _pids("pgrep", "-f", f"{self.folder}/spool-{node}/"):
            step, workers = _pids("ps", "-o", "ppid=", "-p", str(script)), _pids("pgrep", "-P", str(script))
            for pid in (*step, script, *workers):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def call(self, *words: str) -> str:
        """What a command of Slurm prints."""
        environment = {**os.environ, "SLURM_CONF": str(self.conf)}
        return subprocess.run(words, capture_output=True, text=True, env=environment, timeout=60).stdout

    def stop(self) -> None:
        for name in ("slurmd-n1", "slurmd-n2", "slurmctld"):
            self.kill(name, signal.SIGTERM)
        with suppress(OSError, ValueError):
            os.kill(int((self.folder / "munge" / "pid").read_text()), signal.SIGTERM)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return found


def _pids(*words: str) -> list[int]:
    return [int(pid) for pid in subprocess.run(words, capture_output=True, text=True).stdout.split()]


def _call(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise RuntimeError(f"{words[0]}: {done.stderr}")
