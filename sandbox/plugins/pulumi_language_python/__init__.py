"""Pulumi's language host for Python, for machines where the released CLI does not bring one."""
