"""kwok's part in the simulation: heartbeats of nodes, and the streams of `kubectl exec`.

Owns its configuration, and the endpoint in front of it that serves logs and rewrites `exec`.
Pods are not kwok's: the simulation leads them itself.
"""
