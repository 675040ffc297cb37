"""The project's own fabric with `count` networks, far more than a machine has NICs."""

import sys
from pathlib import Path

import pulumi

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from components.network_fabric import GpuNetworkFabric, GpuNetworkFabricArgs
from gpudirect.settings import FabricSettings, NicPlan

count = pulumi.Config("networks").require_int("count")
prefix = f"many-{count}"
nics = tuple(
    NicPlan(
        index=number,
        interface=f"eth{number}",
        network_object=f"vpc{number}",
        vpc_name=f"{prefix}-net-{number}",
        subnet_name=f"{prefix}-sub-{number}",
        firewall_name=f"{prefix}-internal-{number}",
        cidr=f"10.0.{number}.0/24",
    )
    for number in range(1, count + 1)
)
GpuNetworkFabric(
    "fabric",
    GpuNetworkFabricArgs(
        settings=FabricSettings(mtu_bytes=8244, nics=nics, source_ranges=("10.0.0.0/16",)),
        region="us-east4",
    ),
)
