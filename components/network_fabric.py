"""The GPU network: one VPC, one subnet and one firewall rule for each GPU NIC.

Owns every Compute resource of the fabric and the activation of the Compute API. Does not own the
cluster's own network (`AutopilotCluster`) nor the objects that announce the fabric inside the
cluster (`GpuDirectAddons`).
"""

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from components.error_hints import orphan_hint
from gpudirect.settings import FabricSettings, NicPlan


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuNetworkFabricArgs:
    """What a fabric is made of.

    Attributes:
        settings: The checked plan: one entry for each GPU NIC (4 on A3 High, 8 on A3 Mega), the MTU
            and the ranges that may send to the NICs.
        region: Region of the subnets, the cluster's region.
    """

    settings: FabricSettings
    region: pulumi.Input[str]

    def __post_init__(self) -> None:
        """Refuse a fabric that could not carry GPUDirect.

        Raises:
            ValueError: no NIC at all, or one NIC planned twice.
        """
        indices = [nic.index for nic in self.settings.nics]
        if not indices or sorted(set(indices)) != list(range(1, len(indices) + 1)):
            raise ValueError(f"nics: got the numbers {indices}, expected 1 to N, each once")


class GpuNetworkFabric(pulumi.ComponentResource):
    """N closed VPCs of one subnet each, for Pods' GPU NICs and for nothing else.

    No router, NAT, external address or rule from outside: fabric traffic stays between the nodes.

    Attributes:
        subnets: The subnets in NIC order. The cluster's nodes hold NICs in them.
    """

    def __init__(
        self,
        name: str,
        args: GpuNetworkFabricArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpudirect:index:GpuNetworkFabric", name, None, opts)
        api = gcp.projects.Service(
            f"{name}-compute-api",
            service="compute.googleapis.com",
            # Other stacks and people use the API too: destroy must not turn it off for them.
            disable_on_destroy=False,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self._hooks = pulumi.ResourceHookBinding(on_error=[orphan_hint(name)])
        self.subnets = [self._nic(name, nic, args, api) for nic in args.settings.nics]
        self.register_outputs({"subnets": [subnet.name for subnet in self.subnets]})

    def _nic(
        self,
        name: str,
        nic: NicPlan,
        args: GpuNetworkFabricArgs,
        api: gcp.projects.Service,
    ) -> gcp.compute.Subnetwork:
        network = gcp.compute.Network(
            f"{name}-net-{nic.index}",
            name=nic.vpc_name,
            auto_create_subnetworks=False,
            mtu=args.settings.mtu_bytes,
            # No property comes from the API's resource, yet a call before it is on is refused.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[api], hooks=self._hooks),
        )
        # First, because the cluster waits for it: where the engine has few operations side by side,
        # those that are declared first begin first.
        subnet = gcp.compute.Subnetwork(
            f"{name}-sub-{nic.index}",
            name=nic.subnet_name,
            network=network.id,
            region=args.region,
            ip_cidr_range=nic.cidr,
            opts=pulumi.ResourceOptions(parent=self, hooks=self._hooks),
        )
        gcp.compute.Firewall(
            f"{name}-internal-{nic.index}",
            name=nic.firewall_name,
            network=network.id,
            direction="INGRESS",
            allows=[
                gcp.compute.FirewallAllowArgs(protocol="tcp", ports=["0-65535"]),
                gcp.compute.FirewallAllowArgs(protocol="udp", ports=["0-65535"]),
                gcp.compute.FirewallAllowArgs(protocol="icmp"),
            ],
            source_ranges=list(args.settings.source_ranges),
            opts=pulumi.ResourceOptions(parent=self, hooks=self._hooks),
        )
        return subnet
