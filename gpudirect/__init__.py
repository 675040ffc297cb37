"""What the GPU stacks are, in plain Python: no Pulumi, no cloud, no I/O but files it is given."""
