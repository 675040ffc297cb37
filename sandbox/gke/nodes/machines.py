"""Machine types that Autopilot picks, as far as the simulation knows them.

Owns sizes and the mapping from accelerators. Source: [facts autopilot.md §1.1, §1.7 and §3.4],
GoogleCloudPlatform/cluster-autoscaler; what is in no sheet is marked.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineType:
    """One machine type."""

    name: str
    cpus: int
    memory_gib: int
    accelerator: str = ""
    gpus: int = 0
    gpu_nics: int = 0
    """Slots for NICs beside the first one."""
    local_ssds: int = 0

    @property
    def family(self) -> str:
        """Machine family, such as `a3`."""
        return self.name.partition("-")[0]

    @property
    def ephemeral_storage_gib(self) -> int:
        """Local SSDs of 375 GiB less what the node keeps for itself, else a boot disk of 100."""
        if not self.local_ssds:
            return 94
        return int((self.local_ssds * 375 - 100) * 0.9)


A3_MEGA = MachineType(
    name="a3-megagpu-8g",
    cpus=208,
    memory_gib=1872,
    accelerator="nvidia-h100-mega-80gb",
    gpus=8,
    gpu_nics=8,
    local_ssds=16,
)
A3_HIGH = MachineType(
    name="a3-highgpu-8g",
    cpus=208,
    memory_gib=1872,
    accelerator="nvidia-h100-80gb",
    gpus=8,
    gpu_nics=4,
    local_ssds=16,
)
_A3_HIGH_PARTS = tuple(
    MachineType(
        name=f"a3-highgpu-{gpus}g",
        cpus=26 * gpus,
        memory_gib=234 * gpus,
        accelerator="nvidia-h100-80gb",
        gpus=gpus,
        local_ssds=2 * gpus,
    )
    for gpus in (1, 2, 4)
)
_GPU_MACHINES = (A3_MEGA, *_A3_HIGH_PARTS, A3_HIGH)
# Sizes of Autopilot's own machine family are a choice of this simulation.
_ORDINARY_MACHINES = tuple(
    MachineType(name=f"ek-standard-{cpus}", cpus=cpus, memory_gib=4 * cpus) for cpus in (8, 16, 32)
)
_BY_NAME = {machine.name: machine for machine in (*_GPU_MACHINES, *_ORDINARY_MACHINES)}


def machine_named(name: str) -> MachineType | None:
    """Return a machine type, or None if the simulation does not know it."""
    return _BY_NAME.get(name)


def machine_for_gpus(accelerator: str, gpus: int) -> MachineType | None:
    """Return the smallest machine with that many GPUs of a model; None: there is none."""
    fitting = [
        machine
        for machine in _GPU_MACHINES
        if machine.accelerator == accelerator and machine.gpus >= gpus
    ]
    return min(fitting, key=lambda machine: machine.gpus, default=None)


def known_accelerators() -> frozenset[str]:
    """List the GPU models that have a machine here."""
    return frozenset(machine.accelerator for machine in _GPU_MACHINES)


def ordinary_machine(cpus: float, memory_gib: float) -> MachineType | None:
    """Return the smallest ordinary machine with room for some requests; None: none is enough."""
    return next(
        (
            machine
            for machine in _ORDINARY_MACHINES
            if machine.cpus - 1 >= cpus and machine.memory_gib * 0.85 >= memory_gib
        ),
        None,
    )
