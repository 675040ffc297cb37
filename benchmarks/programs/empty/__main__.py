"""Declares nothing: what a preview of it takes is the engine's and the language host's."""

import pulumi

pulumi.export("nothing", True)
