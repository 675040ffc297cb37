"""Declares nothing, and loads what any program for GKE has to: no preview of one can be faster."""

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as kubernetes

# The SDKs load a part of theirs when it is first asked for.
LOADED = (gcp.compute.Network, gcp.container.Cluster, gcp.projects.Service, kubernetes.Provider)

pulumi.export("loaded", len(LOADED))
