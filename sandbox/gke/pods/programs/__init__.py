"""What the commands in simulated containers do.

Owns one function per command, by topic. Does not own the shell, nor which image has which command
(`sandbox.gke.pods.images`).
"""
