"""What an NCCL benchmark does on simulated GPU nodes: bandwidth model and nccl-tests output.

Owns the reference curves, the rules that decide transport and throughput, and the text that
nccl-tests and NCCL print. Knows neither Kubernetes nor processes: callers describe the hosts.
"""
