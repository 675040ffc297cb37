"""The resource types that this plug-in knows, one module each."""

from __future__ import annotations

from .base import ResourceKind
from .cluster import Cluster
from .firewall import Firewall
from .network import Network
from .resource_policy import ResourcePolicy
from .service import Service
from .subnetwork import Subnetwork

KINDS: dict[str, ResourceKind] = {
    kind.pulumi_type: kind()
    for kind in (Network, Subnetwork, Firewall, ResourcePolicy, Service, Cluster)
}
