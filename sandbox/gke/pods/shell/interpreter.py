"""Running a parsed script.

Owns statements: lists, pipelines, redirections, conditions, loops, functions, subshells and the
options `-e`, `-u`, `-x`. Words are expanded in `words`, built-in commands are in `builtins`, all
other commands belong to the machine. A loop that never sleeps gives way to other tasks.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from tree_sitter import Node

from sandbox.gke.pods.files import ReadOnlyError
from sandbox.gke.pods.shell.builtins import BUILTINS
from sandbox.gke.pods.shell.compounds import COMPOUNDS
from sandbox.gke.pods.shell.conditions import ConditionSyntaxError
from sandbox.gke.pods.shell.control import FunctionReturn, ShellExit
from sandbox.gke.pods.shell.pipelines import BROKEN_PIPE, pipeline, run_stages, stage_of
from sandbox.gke.pods.shell.process import NOT_EXECUTABLE, NOT_FOUND, Process, Program
from sandbox.gke.pods.shell.redirections import RedirectionError, open_redirections
from sandbox.gke.pods.shell.streams import Capture, ClosedPipeError
from sandbox.gke.pods.shell.syntax import WORDS, ends_line, is_error, operator_of, parse, text_of
from sandbox.gke.pods.shell.variables import Variables
from sandbox.gke.pods.shell.words import ExpansionError, Words

_REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})


@dataclass(slots=True)
class Options:
    """What `set` switches."""

    exit_on_error: bool = False
    fail_on_unset: bool = False
    trace: bool = False
    pipe_fail: bool = False


@dataclass(slots=True)
class State:
    """What a subshell inherits as a copy."""

    variables: Variables
    functions: dict[str, Node]
    options: Options = field(default_factory=Options)
    status: int = 0
    condition_depth: int = 0


class Interpreter:
    """One shell process."""

    def __init__(self, process: Process, state: State) -> None:
        self.process = process
        self.state = state
        self.jobs: list[asyncio.Task[int]] = []
        self.folder_stack: list[str] = []
        self._open_files = 0
        self._substitutions = 0
        self.words = Words(
            state.variables,
            process.files,
            run=self._substitute,
            special=self._special,
            absolute=lambda path: posixpath.normpath(posixpath.join(self.process.directory, path)),
            fails_on_unset=lambda: state.options.fail_on_unset,
        )

    @property
    def variables(self) -> Variables:
        """The shell's variables."""
        return self.state.variables

    async def run_script(self, script: str) -> int:
        """Run a whole script and return its exit code."""
        try:
            return await self.run_body(parse(script))
        except ShellExit as end:
            return end.code
        except ClosedPipeError:
            return BROKEN_PIPE
        finally:
            for job in self.jobs:
                job.cancel()

    async def run_body(self, body: Node) -> int:
        """Run the statements of a block."""
        return await self.run_all(body.children)

    async def run_all(self, nodes: Sequence[Node]) -> int:
        """Run some statements; those followed by `&` as jobs."""
        empty = True
        for position, node in enumerate(nodes):
            if not node.is_named or node.type == "comment":
                continue
            empty = False
            if position + 1 < len(nodes) and nodes[position + 1].type == "&":
                self._start_job(node)
                self.state.status = 0
            else:
                await self.run(node)
        return 0 if empty else self.state.status

    async def run(self, node: Node) -> int:
        """Run one statement; the status is kept for `$?`."""
        if is_error(node):
            await self.process.complain(
                f"{self.variables.script}: syntax error near '{_near(node)}'"
            )
            raise ShellExit(2)
        handler = _HANDLERS.get(node.type)
        try:
            if handler is None:
                await self.process.complain(f"{self.variables.script}: unknown syntax: {node.type}")
                self.state.status = 2
            else:
                self.state.status = await handler(self, node)
        except ExpansionError as error:
            await self.process.complain(f"{self.variables.script}: {error}")
            raise ShellExit(NOT_FOUND) from error
        except ConditionSyntaxError as error:
            await self.process.complain(f"{self.variables.script}: {error}")
            self.state.status = 2
        if node.type in _CHECKED and self.state.status and self._exits_on_error:
            raise ShellExit(self.state.status)
        return self.state.status

    @property
    def _exits_on_error(self) -> bool:
        return self.state.options.exit_on_error and self.state.condition_depth == 0

    async def condition(self, nodes: Sequence[Node]) -> bool:
        """Run statements as a condition, where failures do not end the script."""
        self.state.condition_depth += 1
        try:
            for node in nodes:
                await self.run(node)
        finally:
            self.state.condition_depth -= 1
        return self.state.status == 0

    def subshell(self, process: Process | None = None) -> Interpreter:
        """Make a shell that starts with a copy of everything."""
        state = State(
            self.variables.copy(),
            dict(self.state.functions),
            Options(
                self.state.options.exit_on_error,
                self.state.options.fail_on_unset,
                self.state.options.trace,
                self.state.options.pipe_fail,
            ),
            self.state.status,
            self.state.condition_depth,
        )
        own = process if process is not None else self.process.child()
        return Interpreter(own, state)

    async def isolated(self, node: Node, process: Process) -> int:
        """Run a node in a subshell with other streams."""
        shell = self.subshell(process)
        try:
            return await shell.run(node)
        except ShellExit as end:
            return end.code
        except ClosedPipeError:
            return BROKEN_PIPE

    # Statements ---------------------------------------------------------------------------------

    async def _command(self, node: Node) -> int:
        assignments = []
        for child in node.children:
            if child.type == "variable_assignment":
                assignments.append(child)
            if assignments and ends_line(node, child):
                # The grammar takes a line of several assignments for a part of the next command.
                for assignment in assignments:
                    await self.assign(assignment)
                assignments = []
        redirects = [child for child in node.children if child.type in _REDIRECTS]
        words = [
            child for child in node.children if child.type == "command_name" or child.type in WORDS
        ]
        arguments = await self.words.arguments(words)
        if not arguments:
            for assignment in assignments:
                await self.assign(assignment)
            return 0
        if self.state.options.trace:
            await self.process.complain("+ " + " ".join(_traced(word) for word in arguments))
        return await self._redirected(redirects, lambda: self._call(arguments, assignments))

    async def _call(self, arguments: list[str], assignments: list[Node]) -> int:
        name = arguments[0]
        function = self.state.functions.get(name)
        if function is not None:
            return await self._call_function(function, arguments)
        builtin = BUILTINS.get(name)
        if builtin is not None:
            for assignment in assignments:
                await self.assign(assignment)
            return await builtin(self, arguments)
        environment = dict(self.variables.environment)
        for assignment in assignments:
            target, value = await self._assignment(assignment)
            environment[target] = value if isinstance(value, str) else " ".join(value)
        return await self.execute(arguments, environment)

    async def execute(self, arguments: Sequence[str], environment: dict[str, str]) -> int:
        """Run a program that is no part of the shell."""
        process = self.process.child(environment=environment)
        program = process.machine.program(arguments[0], process)
        if program is None:
            script = self.variables.script
            if process.files.is_folder(process.path(arguments[0])):
                await process.complain(f"{script}: {arguments[0]}: Is a directory")
                return NOT_EXECUTABLE
            missing = "No such file or directory" if "/" in arguments[0] else "command not found"
            await process.complain(f"{script}: {arguments[0]}: {missing}")
            return NOT_FOUND
        return await self._guarded(program, process, arguments)

    async def _guarded(self, program: Program, process: Process, arguments: Sequence[str]) -> int:
        try:
            return await program(process, arguments)
        except ReadOnlyError as error:
            await process.complain(f"{arguments[0]}: {error}: Read-only file system")
            return 1

    async def _call_function(self, body: Node, arguments: list[str]) -> int:
        before = self.variables.enter_function(arguments[1:])
        try:
            return await self.run(body)
        except FunctionReturn as end:
            return end.code
        finally:
            self.variables.leave_function(before)

    async def _redirected(
        self, redirects: Sequence[Node], action: Callable[[], Awaitable[int]]
    ) -> int:
        """Carry out an action with redirected streams."""
        if not redirects:
            return await action()
        before = (self.process.stdin, self.process.stdout, self.process.stderr)
        try:
            await open_redirections(self, redirects)
        except (RedirectionError, ReadOnlyError) as error:
            await before[2].write(f"{self.variables.script}: {error}\n")
            return 1
        try:
            return await action()
        finally:
            self.process.stdin, self.process.stdout, self.process.stderr = before

    async def _redirected_statement(self, node: Node) -> int:
        redirects = [child for child in node.children if child.type in _REDIRECTS]
        bodies = [
            child for child in node.children if child.is_named and child.type not in _REDIRECTS
        ]
        rest = [redirect for redirect in redirects if redirect.type == "heredoc_redirect"]
        # `cmd <<EOF | other`: the grammar hangs what follows the here-document's start into it.
        pipes = [
            child for redirect in rest for child in redirect.named_children
            if child.type in {"pipeline", "command", "list"}
        ]  # fmt: skip
        if pipes and bodies:

            async def first(shell: Interpreter) -> int:
                return await shell._redirected(redirects, lambda: shell.run(bodies[0]))

            return await run_stages(self, [first, *(stage_of(pipe) for pipe in pipes)])
        if not bodies:
            return await self._redirected(redirects, _succeed)
        return await self._redirected(redirects, lambda: self.run(bodies[0]))

    async def _list(self, node: Node) -> int:
        left, right = node.named_children[0], node.named_children[-1]
        sign = operator_of(node, frozenset({"&&", "||"}))
        succeeded = await self.condition([left])
        if succeeded == (sign == "&&"):
            return await self.run(right)
        return self.state.status

    async def assign(self, node: Node) -> int:
        """Carry out `name=value`, `name+=value` or `name[index]=value`."""
        substitutions = self._substitutions
        name, value = await self._assignment(node)
        if self.state.options.trace:
            shown = value if isinstance(value, str) else f"({' '.join(value)})"
            await self.process.complain(f"+ {name}={shown}")
        target = node.named_children[0]
        if target.type == "subscript" and isinstance(value, str):
            index = await self.words.number(text_of(target.named_children[-1]))
            self.variables.set_element(text_of(target.named_children[0]), index, value)
        elif operator_of(node, frozenset({"+="})):
            self.variables.append(name, value)
        else:
            self.variables.set(name, value)
        return self.state.status if self._substitutions != substitutions else 0

    async def _assignment(self, node: Node) -> tuple[str, str | list[str]]:
        name = text_of(node.named_children[0])
        values = node.named_children[1:]
        if not values:
            return name, ""
        if values[0].type == "array":
            return name, await self.words.arguments(values[0].named_children)
        return name, await self.words.text(values[0])

    async def _assignments(self, node: Node) -> int:
        for child in node.named_children:
            await self.assign(child)
        return 0

    # Substitutions ------------------------------------------------------------------------------

    async def _substitute(self, node: Node) -> str:
        """Run `$( )` and return its output, or `<( )` and return the name of a file with it."""
        only = node.named_children[0] if len(node.named_children) == 1 else None
        if only is not None and only.type == "file_redirect":
            path = self.process.path(await self.words.text(only.named_children[-1]))
            content = self.process.files.read(path)
            if content is None:
                await self.process.complain(
                    f"{self.variables.script}: {path}: No such file or directory"
                )
                self.state.status = 1
            return content or ""
        self._substitutions += 1
        output = Capture()
        shell = self.subshell(self.process.child(stdout=output))
        shell.state.condition_depth = 0
        try:
            self.state.status = await shell.run_body(node)
        except ShellExit as end:
            self.state.status = end.code
        if node.type == "command_substitution":
            return output.text
        self._open_files += 1
        path = f"/proc/self/fd/{62 + self._open_files}"
        self.process.files.write(path, output.text)
        return path

    def _special(self, name: str) -> str | None:
        match name:
            case "?":
                return str(self.state.status)
            case "#":
                return str(len(self.variables.arguments))
            case "$":
                return "1"
            case "!":
                return str(100 + len(self.jobs)) if self.jobs else None
            case "-":
                return "hB"
        return None

    def _start_job(self, node: Node) -> None:
        self.jobs.append(asyncio.create_task(self.isolated(node, self.process.child())))


async def _succeed() -> int:
    return 0


def _traced(word: str) -> str:
    plain = word and all(char.isalnum() or char in "_-./=,:@%+^" for char in word)
    return word if plain else "'" + word.replace("'", "'\\''") + "'"


def _near(node: Node) -> str:
    return text_of(node).strip().splitlines()[0][:40] if text_of(node).strip() else "end of file"


_CHECKED = frozenset(
    {
        "command",
        "pipeline",
        "test_command",
        "subshell",
        "redirected_statement",
        "compound_statement",
    }
    | {"variable_assignment", "declaration_command"}
)
_HANDLERS: dict[str, Callable[[Interpreter, Node], Awaitable[int]]] = {
    **COMPOUNDS,
    "program": Interpreter.run_body,
    "do_group": Interpreter.run_body,
    "command": Interpreter._command,
    "redirected_statement": Interpreter._redirected_statement,
    "list": Interpreter._list,
    "pipeline": pipeline,
    "variable_assignment": Interpreter.assign,
    "variable_assignments": Interpreter._assignments,
}


async def run_script(process: Process, script: str, arguments: Sequence[str]) -> int:
    """Run a script in a new shell.

    Args:
        process: Whose environment, directory and streams the shell gets.
        script: The text.
        arguments: `$0` and the positional parameters.
    """
    variables = Variables(process.environment, arguments)
    variables.set("BASH_SOURCE", list(arguments[:1]))
    shell = Interpreter(process, State(variables, {}))
    return await shell.run_script(script)
