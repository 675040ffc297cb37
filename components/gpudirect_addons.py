"""What a cluster needs inside before a Pod can use the GPU network.

Owns the network objects of the GPU NICs, the namespace, the stack's NCCL plug-in installer and the
NRI device injector. Does not own the run that proves them (`NcclSmokeTest`): Autopilot has no GPU
node until a Pod asks for one, so a DaemonSet that is "ready" here has proved nothing yet.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.deployed_state import STACK_LABEL
from components.error_hints import missing_kind_hint
from components.existing_objects import foreign_object_guard
from gpudirect.manifests import Document, load_manifest, with_images
from gpudirect.releases import load_releases, with_registry
from gpudirect.settings import NicPlan
from gpudirect.workloads import Environment

# GKE validates a parameter set in the half minute after its subnet appeared
# (facts autopilot 4.3: 30 s resync); ten such rounds are no longer a delay but a fault.
_READY_TIMEOUT = "5m"


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuDirectAddonsArgs:
    """What the addons are made of.

    Attributes:
        nics: One entry for each GPU NIC, as in the fabric.
        environment: The GPU stack, whose name is the folder of its manifests, and the release.
        device_injector: Whether the stack brings its own injector (newer GKE versions do).
        cluster: The cluster that the objects disappear with.
        kubernetes_provider: The way into it.
        kubeconfig: The same, to look whether an object is there already.
        stack_label: Names the stack on every object.
    """

    nics: Sequence[NicPlan]
    environment: Environment
    device_injector: bool
    cluster: pulumi.Resource
    kubernetes_provider: kubernetes.Provider
    kubeconfig: pulumi.Output[str]
    stack_label: str


class GpuDirectAddons(pulumi.ComponentResource):
    """Network objects, installer and injector of one environment."""

    def __init__(
        self,
        name: str,
        args: GpuDirectAddonsArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpudirect:index:GpuDirectAddons", name, None, opts)
        self._args = args
        guard = foreign_object_guard(name, kubeconfig=args.kubeconfig, stack_label=args.stack_label)
        self._hooks = pulumi.ResourceHookBinding(
            before_create=[guard], on_error=[missing_kind_hint(name)]
        )
        for nic in args.nics:
            self._network_objects(name, nic)
        namespace = load_manifest("namespace.yaml")
        self.namespace = kubernetes.core.v1.Namespace(
            f"{name}-namespace",
            metadata=self._labelled(namespace["metadata"]),
            opts=self._options(),
        )
        self._daemon_set(
            f"{name}-installer", load_manifest(f"{args.environment.stack.name}/installer.yaml")
        )
        if args.device_injector:
            self._daemon_set(f"{name}-device-injector", load_manifest("device-injector.yaml"))
        self.register_outputs({"namespace": namespace["metadata"]["name"]})

    def _labelled(self, metadata: Mapping[str, Any]) -> Any:
        labels = {**metadata.get("labels", {}), STACK_LABEL: self._args.stack_label}
        return {**metadata, "labels": labels}

    def _options(
        self, depends_on: Sequence[pulumi.Resource] = (), create_timeout: str | None = None
    ) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(
            parent=self,
            provider=self._args.kubernetes_provider,
            depends_on=list(depends_on),
            hooks=self._hooks,
            # Destroy deletes the cluster and these with it: it needs no API server that answers
            # and waits for no finalizer of GKE's.
            deleted_with=self._args.cluster,
            custom_timeouts=(
                pulumi.CustomTimeouts(create=create_timeout) if create_timeout else None
            ),
        )

    def _network_objects(self, name: str, nic: NicPlan) -> None:
        parameters = _named(load_manifest("gke-network-param-set.yaml"), nic)
        parameters["spec"] |= {"vpc": nic.vpc_name, "vpcSubnet": nic.subnet_name}
        network = _named(load_manifest("network.yaml"), nic)
        network["spec"]["parametersRef"]["name"] = nic.network_object
        parameter_set = self._custom_resource(f"{name}-params-{nic.index}", parameters)
        # GKE keeps a finalizer on the parameter set while a Network refers to it, and calls a
        # Network ready only when its parameter set is.
        self._custom_resource(f"{name}-network-{nic.index}", network, depends_on=[parameter_set])

    def _custom_resource(
        self, name: str, document: Document, depends_on: Sequence[pulumi.Resource] = ()
    ) -> kubernetes.apiextensions.CustomResource:
        metadata: Mapping[str, object] = {
            **self._labelled(document["metadata"]),
            # Without it an object with no condition at all counts as ready [R30].
            "annotations": {"pulumi.com/waitFor": "condition=Ready"},
        }
        return kubernetes.apiextensions.CustomResource(
            name,
            api_version=document["apiVersion"],
            kind=document["kind"],
            metadata=metadata,
            spec=document["spec"],
            opts=self._options(depends_on, create_timeout=_READY_TIMEOUT),
        )

    def _daemon_set(self, name: str, document: Document) -> None:
        document = with_images(document, _addon_images(self._args.environment))
        kubernetes.apps.v1.DaemonSet(
            name,
            metadata=self._labelled(document["metadata"]),
            spec=document["spec"],
            opts=self._options([self.namespace]),
        )


def _named(document: Document, nic: NicPlan) -> Document:
    document["metadata"] = {**document["metadata"], "name": nic.network_object}
    return document


def _addon_images(environment: Environment) -> list[str]:
    """Return the addons' images at the versions of the release, from the registry of the stack."""
    lock = load_releases()
    images = [environment.release.plugin_image, lock.pause_image, lock.injector_image]
    return [with_registry(image, environment.image_registry) for image in images]
