"""A shell that runs the scripts of simulated containers without running anything.

Owns the shell language: words, expansions, redirections, loops, functions, `[ ]`. What commands
do is decided by the `Machine` that a process belongs to; nothing here touches this computer.
Syntax is read by tree-sitter's bash grammar.
"""
