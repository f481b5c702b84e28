"""A Slurm with two nodes on this machine, whose parts can be killed one by one. Needs Debian's slurmctld, slurmd,
slurm-client and munge, and root."""

import os
import secrets
import shutil
import socket
import subprocess
import time
from pathlib import Path

import psutil

from tests.fleet.ray_cluster import free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo", "scancel")
_UP_WITHIN = 60.0
DEVICES = ("/dev/null", "/dev/zero")
"""Slurm wants a device for each GPU, any."""
CONFIGURATION = """\
ClusterName=gate
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
CredType=cred/munge
SlurmctldPort={port}
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
MpiDefault=none
ReturnToService=2
SlurmdTimeout=20
KillWait=60
MinJobAge=300
JobRequeue=0
GresTypes=gpu
SlurmdParameters=config_overrides
{nodes}
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=8000 Gres=gpu:h100:1"


def is_installed() -> bool:
    return os.geteuid() == 0 and all(shutil.which(name) for name in PROGRAMS)


class SlurmCluster:
    """`stop` ends everything that it started."""

    def __init__(self, directory: Path, *names: str) -> None:
        self._directory = directory
        self._parts: dict[str, psutil.Popen] = {}
        host = socket.gethostname().partition(".")[0]
        for made in ("state", *(f"spool-{name}" for name in names)):
            (directory / made).mkdir(parents=True)
        directory.chmod(0o711)
        nodes = "\n".join(NODE.format(name=name, host=host, port=free_port()) for name in names)
        text = CONFIGURATION.format(host=host, directory=directory, port=free_port(), nodes=nodes)
        (directory / "slurm.conf").write_text(text)
        gpus = (
            f"NodeName={name} Name=gpu Type=h100 File={device}\n" for name, device in zip(names, DEVICES, strict=True)
        )
        (directory / "gres.conf").write_text("".join(gpus))
        (directory / "munge.key").write_bytes(secrets.token_bytes(1024))
        (directory / "munge.key").chmod(0o400)
        self._names = names

    def start(self) -> None:
        files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munged.pid"}
        files |= {"log-file": "munged.log", "seed-file": "munged.seed"}
        options = [f"--{option}={self._directory / name}" for option, name in files.items()]
        self._begin("munged", "munged", "--foreground", "--force", *options)
        self.start_controller("-c")
        for name in self._names:
            self.start_node(name)
        self.wait_until_up()

    def start_controller(self, *options: str) -> None:
        """Without options it remembers its jobs."""
        self._begin("controller", "slurmctld", "-D", *options)

    def start_node(self, name: str) -> None:
        self._begin(name, "slurmd", "-D", "-N", name)

    def wait_until_up(self) -> None:
        deadline = time.monotonic() + _UP_WITHIN
        while self._states() != ["idle"] * len(self._names):
            assert time.monotonic() < deadline, f"Slurm's nodes are {self._states()}"
            time.sleep(0.3)

    def _states(self) -> list[str]:
        done = subprocess.run(["sinfo", "--noheader", "--Node", "--format=%T"], capture_output=True, text=True)
        return done.stdout.split()

    def _begin(self, part: str, *words: str) -> None:
        with (self._directory / f"{part}.out").open("ab") as log:
            self._parts[part] = psutil.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    def kill(self, part: str) -> None:
        """A part at once, as by a crash; of a node, what holds its jobs goes, too."""
        process = self._parts.pop(part)
        steps = [each for each in psutil.process_iter() if part in self._names and self._is_step(each, part)]
        for each in (process, *steps):
            try:
                each.kill()
            except psutil.NoSuchProcess:
                continue
        process.wait(30)

    def _is_step(self, process: psutil.Process, node: str) -> bool:
        """Whether it is Slurm's own process beside a job on the node."""
        try:
            return process.name() == "slurmstepd" and f"spool-{node}" in " ".join(
                [process.cwd(), *(file.path for file in process.open_files())]
            )
        except psutil.Error:
            return False

    def stop(self) -> None:
        if "controller" in self._parts:
            subprocess.run(["scancel", "--user=root"], capture_output=True, timeout=60)
            time.sleep(1)
        for part in reversed(list(self._parts)):
            self.kill(part)
