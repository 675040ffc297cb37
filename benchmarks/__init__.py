"""Figures that are printed and looked at, not tested."""
