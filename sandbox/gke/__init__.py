"""What stands behind a GKE cluster: control plane, Autopilot, nodes and GPU Pods."""
