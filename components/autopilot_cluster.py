"""The GKE Autopilot cluster with multi-networking, and the way into it.

Owns the cluster, the activation of the Kubernetes Engine API, the cluster's own network where the
stack makes one, the kubeconfig and the only Kubernetes provider of the program. Does not own the
GPU networks (`GpuNetworkFabric`) nor anything inside the cluster (`GpuDirectAddons`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as kubernetes

from components.deployed_state import STACK_LABEL, FormerCluster
from components.error_hints import orphan_hint
from gpudirect.kubeconfig import build_kubeconfig
from gpudirect.settings import ClusterSettings

_PROTECTION = "deletionProtection"
_INPUTS = [
    "allowNetAdmin",
    _PROTECTION,
    "enableMultiNetworking",
    "ipAllocationPolicy",
    "maintenancePolicy",
    "masterAuthorizedNetworksConfig",
    "minMasterVersion",
    "network",
    "privateClusterConfig",
    "releaseChannel",
    "resourceLabels",
    "subnetwork",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class AutopilotClusterArgs:
    """What a cluster is made of.

    Attributes:
        settings: The checked cluster part of the stack's config.
        region: Where the cluster lives; Autopilot clusters are regional.
        labels: Labels of the cluster.
        gpu_subnets: The subnets of the GPU networks; see `AutopilotCluster`.
        stack_label: Names the stack on the cluster; see `deployed_state`.
        former: What earlier updates left of the cluster.
    """

    settings: ClusterSettings
    region: pulumi.Input[str]
    labels: Mapping[str, str]
    gpu_subnets: Sequence[pulumi.Resource]
    stack_label: str
    former: FormerCluster


class AutopilotCluster(pulumi.ComponentResource):
    """An Autopilot cluster whose Pods may hold GPU NICs.

    Attributes:
        cluster: The cluster itself. In-cluster objects carry it as `deleted_with`, so that destroy
            needs no cluster that answers and hangs on no finalizer.
        kubernetes_provider: The provider for every in-cluster object.
        guarded: Whether a destroy is to be refused: the config says so, or an interrupted update
            had left the cluster; then it is protected until the next update.
        kubeconfig: A secret; holds no token.
    """

    def __init__(
        self,
        name: str,
        args: AutopilotClusterArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpudirect:index:AutopilotCluster", name, None, opts)
        settings, former = args.settings, args.former
        # The provider imports every cluster as protected, whatever is asked for. The engine must
        # know: else a destroy is refused only when what is in the cluster has left the state.
        self.guarded = settings.deletion_protection or former.adopted_id is not None
        # A cluster that never came up holds nothing to protect, and could not be replaced.
        protected = self.guarded and not former.held
        hooks = pulumi.ResourceHookBinding(on_error=[orphan_hint(name)])
        api = gcp.projects.Service(
            f"{name}-container-api",
            service="container.googleapis.com",
            # Other stacks and people use the API too: destroy must not turn it off for them.
            disable_on_destroy=False,
            opts=pulumi.ResourceOptions(parent=self),
        )
        network, subnetwork = self._own_network(name, args, hooks)
        self.cluster = gcp.container.Cluster(
            f"{name}-cluster",
            name=settings.name,
            location=args.region,
            network=network,
            subnetwork=subnetwork,
            enable_autopilot=True,
            enable_multi_networking=True,
            # Always sent: a value left out would be taken for "leave it as somebody set it" [R26].
            allow_net_admin=True,
            min_master_version=settings.version,
            release_channel=gcp.container.ClusterReleaseChannelArgs(
                channel=settings.release_channel
            ),
            # Even when empty: without the block the request is not VPC-native [R22].
            ip_allocation_policy=gcp.container.ClusterIpAllocationPolicyArgs(
                cluster_ipv4_cidr_block=settings.pod_cidr,
                services_ipv4_cidr_block=settings.service_cidr,
            ),
            private_cluster_config=_private_cluster(settings),
            master_authorized_networks_config=_authorized_networks(settings),
            maintenance_policy=_maintenance(settings),
            # Guards are read from state, so the value is always explicit [R19].
            deletion_protection=protected,
            resource_labels={**args.labels, STACK_LABEL: args.stack_label},
            opts=self._cluster_options(former, protected, hooks, [api, *args.gpu_subnets]),
        )
        context = pulumi.Output.format(
            "gke_{0}_{1}_{2}", self.cluster.project, self.cluster.location, self.cluster.name
        )
        # A cluster that never came up has neither.
        certificate = self.cluster.master_auth.apply(
            lambda auth: auth.cluster_ca_certificate or "" if auth else ""
        )
        kubeconfig: pulumi.Output[str] = pulumi.Output.all(
            context, self.cluster.endpoint, certificate, self.cluster.urn
        ).apply(lambda parts: _kubeconfig(*parts, name=settings.name, former=former))
        self.kubeconfig: pulumi.Output[str] = pulumi.Output.secret(kubeconfig)
        self.kubernetes_provider = kubernetes.Provider(
            f"{name}-kubernetes",
            kubeconfig=self.kubeconfig,
            # An update that was killed left objects that the state does not know: they are taken
            # back. Other people's are refused before (`existing_objects`).
            upsert_existing_objects=True,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"name": self.cluster.name, "endpoint": self.cluster.endpoint})

    def _cluster_options(
        self,
        former: FormerCluster,
        protected: bool,
        hooks: pulumi.ResourceHookBinding,
        depends_on: Sequence[pulumi.Resource],
    ) -> pulumi.ResourceOptions:
        anew = former.failed and not former.held
        ignored = None
        if former.adopted_id:
            # An adopted cluster was made from this very config a moment ago. What Google does not
            # tell back would look like a difference, and an import with one is refused; the next
            # update sets it right.
            ignored = _INPUTS
        elif former.held:
            ignored = [name for name in _INPUTS if name != _PROTECTION]
        return pulumi.ResourceOptions(
            parent=self,
            hooks=hooks,
            # The provider's own guard is asked when what is in the cluster has left the state
            # already; the engine's is asked before anything is deleted.
            protect=protected,
            import_=former.adopted_id,
            ignore_changes=ignored,
            # A creation that failed leaves a cluster without an address in the state, and no update
            # in place gives it one.
            replace_on_changes=["#initerror", _PROTECTION] if anew else None,
            # Its name is its own: two of them cannot be there at once.
            delete_before_replace=True,
            # The cluster's nodes hold NICs in the GPU subnets although no property says so. Without
            # the edge destroy would delete both at once, and Google refuses a subnet that is in
            # use. The API must be on before the first call.
            depends_on=list(depends_on),
        )

    def _own_network(
        self, name: str, args: AutopilotClusterArgs, hooks: pulumi.ResourceHookBinding
    ) -> tuple[pulumi.Input[str], pulumi.Input[str] | None]:
        settings = args.settings
        if not settings.create_network:
            return settings.network, settings.subnetwork
        network = gcp.compute.Network(
            f"{name}-net",
            name=settings.network_name,
            auto_create_subnetworks=False,
            # The Compute API is on once the GPU subnets are there.
            opts=pulumi.ResourceOptions(
                parent=self, depends_on=list(args.gpu_subnets), hooks=hooks
            ),
        )
        subnetwork = gcp.compute.Subnetwork(
            f"{name}-sub",
            name=settings.subnetwork_name,
            network=network.id,
            region=args.region,
            ip_cidr_range=settings.subnetwork_cidr,
            # Private nodes reach Google's registries without an external address.
            private_ip_google_access=True,
            opts=pulumi.ResourceOptions(parent=self, hooks=hooks),
        )
        return network.id, subnetwork.id


def _kubeconfig(
    context: str,
    endpoint: str,
    certificate: str,
    urn: str,
    *,
    name: str,
    former: FormerCluster,
) -> str:
    """Return the way into the cluster.

    Raises:
        pulumi.RunError: it has no address; nothing of what follows could be made.
    """
    if endpoint:
        return build_kubeconfig(context=context, endpoint=endpoint, ca_certificate=certificate)
    if not former.held:
        raise pulumi.RunError(
            f"the cluster {name} has no address: its creation has failed. Delete it and make it "
            f"anew with `pulumi up --replace '{urn}'`"
        )
    if pulumi.runtime.is_dry_run():
        return cast(str, pulumi.UNKNOWN)
    raise pulumi.RunError(
        f"the cluster {name} never came up and was protected against deletion. It is not any more: "
        "run `pulumi up` again, which deletes it and makes it anew"
    )


def _private_cluster(
    settings: ClusterSettings,
) -> gcp.container.ClusterPrivateClusterConfigArgs | None:
    if not settings.private_nodes:
        return None
    return gcp.container.ClusterPrivateClusterConfigArgs(
        enable_private_nodes=True,
        enable_private_endpoint=False,
        master_ipv4_cidr_block=settings.control_plane_cidr,
    )


def _authorized_networks(
    settings: ClusterSettings,
) -> gcp.container.ClusterMasterAuthorizedNetworksConfigArgs | None:
    if not settings.authorized_networks:
        return None
    return gcp.container.ClusterMasterAuthorizedNetworksConfigArgs(
        cidr_blocks=[
            gcp.container.ClusterMasterAuthorizedNetworksConfigCidrBlockArgs(
                display_name=display_name, cidr_block=cidr
            )
            for display_name, cidr in settings.authorized_networks
        ]
    )


def _maintenance(
    settings: ClusterSettings,
) -> gcp.container.ClusterMaintenancePolicyArgs | None:
    if settings.maintenance_window is None:
        return None
    return gcp.container.ClusterMaintenancePolicyArgs(
        daily_maintenance_window=gcp.container.ClusterMaintenancePolicyDailyMaintenanceWindowArgs(
            start_time=settings.maintenance_window
        )
    )
