"""Stand-ins for Pulumi plug-ins and command line helpers that a machine may lack."""
