"""Pipelines: several commands at once, each reading what the one before writes.

Owns the pipes and the exit code of the whole. Text passes as it comes, so that a command that
never ends still shows what it wrote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from tree_sitter import Node

from sandbox.gke.pods.shell.control import ShellExit
from sandbox.gke.pods.shell.streams import ClosedPipeError, LineReader, Pipe

if TYPE_CHECKING:
    from sandbox.gke.pods.shell.interpreter import Interpreter

BROKEN_PIPE = 141
"""Exit code of a command that wrote where nobody reads."""

Stage = Callable[["Interpreter"], Awaitable[int]]


async def pipeline(shell: Interpreter, node: Node) -> int:
    """`first | second | third`."""
    stages = [child for child in node.children if child.is_named and child.type != "comment"]
    return await run_stages(shell, [stage_of(stage) for stage in stages])


def stage_of(node: Node) -> Stage:
    """Make a stage that runs a statement."""

    async def run(shell: Interpreter) -> int:
        return await shell.run(node)

    return run


async def run_stages(shell: Interpreter, stages: Sequence[Stage]) -> int:
    """Run stages in subshells of their own, joined by pipes; return the exit code."""
    pipes = [Pipe() for _ in stages[1:]]
    tasks = []
    for position, stage in enumerate(stages):
        changes: dict[str, object] = {}
        if position:
            changes["stdin"] = LineReader(pipes[position - 1])
        if position < len(pipes):
            changes["stdout"] = pipes[position]
        inner = shell.subshell(shell.process.child(**changes))
        tasks.append(asyncio.create_task(_run_stage(inner, stage, pipes, position)))
    try:
        codes = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    if shell.state.options.pipe_fail:
        return next((code for code in reversed(codes) if code), 0)
    return codes[-1]


async def _run_stage(shell: Interpreter, stage: Stage, pipes: Sequence[Pipe], position: int) -> int:
    """Run one stage and close its ends of the pipes."""
    try:
        return await stage(shell)
    except ShellExit as end:
        return end.code
    except ClosedPipeError:
        return BROKEN_PIPE
    finally:
        if position < len(pipes):
            pipes[position].close_writer()
        if position:
            pipes[position - 1].close_reader()
