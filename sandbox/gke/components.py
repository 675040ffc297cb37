"""The programs of one cluster's control plane and their command lines.

Owns: which binaries run and with which flags. Does not own starting or watching them
(`sandbox.gke.control_plane`).
"""

from __future__ import annotations

import json
from pathlib import Path

from sandbox.gke.certificates import ADMIN, CONTROLLER_MANAGER, SCHEDULER
from sandbox.gke.child_process import Program
from sandbox.gke.cluster_folder import ClusterFolder, Ports

# Relative to etcd's and the API server's working directory: a path below a deep home folder would
# be longer than a socket address may be. A loopback port would let every local user in.
ETCD_SOCKETS = ("etcd.sock:0", "etcd-peer.sock:0")

_CONTROLLERS = (
    # Workloads.
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "job-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "statefulset-controller",
    "ttl-after-finished-controller",
    # Services.
    "endpointslice-controller",
    "endpoints-controller",
    # Nodes: takes the not-ready taint away that the API server puts on a new node.
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "taint-eviction-controller",
    # Namespaces, accounts, deletion of what belongs to what was deleted.
    "clusterrole-aggregation-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
)


def etcd(binaries: Path, folder: ClusterFolder) -> Program:
    """The store. Nothing is synced to disk: it outlives killed processes, not a power cut."""
    client, peer = (f"unix://{name}" for name in ETCD_SOCKETS)
    return Program(
        name="etcd",
        arguments=(
            str(binaries / "etcd"),
            "--name=sandbox",
            f"--data-dir={folder.etcd_data}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=sandbox={peer}",
            "--log-level=warn",
        ),
        folder=folder.root,
        log=folder.log("etcd"),
    )


def kube_apiserver(
    binaries: Path, folder: ClusterFolder, ports: Ports, service_cidr: str
) -> Program:
    """The API server, without what only a cluster of many servers needs."""
    certificates = folder.certificates
    return Program(
        name="kube-apiserver",
        arguments=(
            str(binaries / "kube-apiserver"),
            f"--etcd-servers=unix://{ETCD_SOCKETS[0]}",
            "--bind-address=127.0.0.1",
            f"--secure-port={ports.kubernetes}",
            f"--tls-cert-file={certificates.server}",
            f"--tls-private-key-file={certificates.server_key}",
            f"--client-ca-file={certificates.ca}",
            f"--token-auth-file={folder.users}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={certificates.service_account_key}",
            f"--service-account-signing-key-file={certificates.service_account_key}",
            "--authorization-mode=RBAC",
            f"--service-cluster-ip-range={service_cidr}",
            # Autopilot's own rules decide about privileged Pods, as at Google.
            "--allow-privileged=true",
            # Nodes have addresses of the project's VPC; InternalDNS is where their kubelet answers.
            "--kubelet-preferred-address-types=InternalDNS,InternalIP",
            # GPU Pods tolerate the taint that GPU nodes carry, as on GKE.
            "--enable-admission-plugins=ExtendedResourceToleration",
            # A loopback address may not stand in the endpoints of the `kubernetes` Service.
            "--endpoint-reconciler-type=none",
            "--enable-priority-and-fairness=false",
            "--profiling=false",
        ),
        folder=folder.root,
        log=folder.log("kube-apiserver"),
        # Half the garbage collections while it starts (0.5 s), more of them once it has grown.
        environment=(("GOGC", "200"), ("GOMEMLIMIT", "250MiB")),
    )


def kube_controller_manager(binaries: Path, folder: ClusterFolder) -> Program:
    """The controllers that Jobs, DaemonSets, Services, namespaces and deletion need."""
    return Program(
        name="kube-controller-manager",
        arguments=(
            str(binaries / "kube-controller-manager"),
            f"--kubeconfig={folder.kubeconfig(CONTROLLER_MANAGER)}",
            f"--root-ca-file={folder.certificates.ca}",
            f"--controllers={','.join(_CONTROLLERS)}",
            "--leader-elect=false",
            "--secure-port=0",
            "--profiling=false",
        ),
        folder=folder.root,
        log=folder.log("kube-controller-manager"),
    )


def kube_scheduler(binaries: Path, folder: ClusterFolder) -> Program:
    """The scheduler."""
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(folder.kubeconfig(SCHEDULER))},
        "leaderElection": {"leaderElect": False},
        "enableProfiling": False,
    }
    folder.scheduler_config.write_text(json.dumps(config))
    return Program(
        name="kube-scheduler",
        arguments=(
            str(binaries / "kube-scheduler"),
            f"--config={folder.scheduler_config}",
            "--secure-port=0",
        ),
        folder=folder.root,
        log=folder.log("kube-scheduler"),
    )


def kwok(binaries: Path, folder: ClusterFolder, arguments: tuple[str, ...]) -> Program:
    """The stand-in for kubelets; what it plays is decided by whoever gives the arguments."""
    return Program(
        name="kwok",
        arguments=(
            str(binaries / "kwok"),
            f"--kubeconfig={folder.kubeconfig(ADMIN)}",
            *arguments,
        ),
        folder=folder.root,
        log=folder.log("kwok"),
    )
