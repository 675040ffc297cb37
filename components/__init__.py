"""The four Pulumi components of an environment; every cloud resource is declared in here."""
