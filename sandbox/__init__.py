"""A stand-in Google Cloud with real Kubernetes API servers, on this machine alone."""
