"""Autopilot's node provisioning: which node a Pod gets, and when it goes again.

Owns the decision (machine, zone, NICs or the reason why not), the Node object and the VM behind
it. Does not own what runs on a node (`sandbox.gke.pods`).
"""
