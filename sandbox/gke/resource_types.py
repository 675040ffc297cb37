"""The kinds of objects that the sandbox reads and writes, and where the API serves them.

Owns `ResourceType` and one constant per kind. Does not own the definitions of the GKE kinds:
those are the YAML documents in `sandbox/gke/kinds`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResourceType:
    """One kind of object and where the API serves it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`apiVersion` as manifests write it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """Build the URL path of the collection, of one object, or of a subresource of it."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [self.plural, name, subresource]
        return "/".join(part for part in parts if part)


PODS = ResourceType("", "v1", "pods", "Pod")
NODES = ResourceType("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = ResourceType("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAPS = ResourceType("", "v1", "configmaps", "ConfigMap")
SERVICES = ResourceType("", "v1", "services", "Service")
EVENTS = ResourceType("", "v1", "events", "Event")
DAEMON_SETS = ResourceType("apps", "v1", "daemonsets", "DaemonSet")
DEPLOYMENTS = ResourceType("apps", "v1", "deployments", "Deployment")
JOBS = ResourceType("batch", "v1", "jobs", "Job")
LEASES = ResourceType("coordination.k8s.io", "v1", "leases", "Lease")
NETWORKS = ResourceType("networking.gke.io", "v1", "networks", "Network", namespaced=False)
PARAM_SETS = ResourceType(
    "networking.gke.io", "v1", "gkenetworkparamsets", "GKENetworkParamSet", namespaced=False
)
COMPUTE_CLASSES = ResourceType(
    "cloud.google.com", "v1", "computeclasses", "ComputeClass", namespaced=False
)
CUSTOM_RESOURCE_DEFINITIONS = ResourceType(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
CLUSTER_ROLE_BINDINGS = ResourceType(
    "rbac.authorization.k8s.io",
    "v1",
    "clusterrolebindings",
    "ClusterRoleBinding",
    namespaced=False,
)
VALIDATING_POLICIES = ResourceType(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
)
VALIDATING_POLICY_BINDINGS = ResourceType(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
MUTATING_POLICIES = ResourceType(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingadmissionpolicies",
    "MutatingAdmissionPolicy",
    namespaced=False,
)
MUTATING_POLICY_BINDINGS = ResourceType(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingadmissionpolicybindings",
    "MutatingAdmissionPolicyBinding",
    namespaced=False,
)
