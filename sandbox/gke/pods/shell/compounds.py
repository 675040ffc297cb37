"""Compound commands: conditions, loops, cases, functions, subshells, tests, declarations.

Owns one function per kind of statement. Does not own simple commands and pipelines, which are the
interpreter's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from tree_sitter import Node

from sandbox.gke.pods.shell import conditions
from sandbox.gke.pods.shell.control import LoopBreak, LoopContinue, ShellExit
from sandbox.gke.pods.shell.syntax import WORDS, text_of

if TYPE_CHECKING:
    from sandbox.gke.pods.shell.interpreter import Interpreter


async def negated(shell: Interpreter, node: Node) -> int:
    """`! command`."""
    return int(await shell.condition([node.named_children[-1]]))


async def if_statement(shell: Interpreter, node: Node) -> int:
    """`if … then … elif … else … fi`."""
    branches: list[tuple[list[Node], list[Node]]] = [_branch(node)]
    otherwise: Node | None = None
    for clause in node.named_children:
        if clause.type == "elif_clause":
            branches.append(_branch(clause))
        elif clause.type == "else_clause":
            otherwise = clause
    for tests, body in branches:
        if await shell.condition(tests):
            return await shell.run_all(body)
    return 0 if otherwise is None else await shell.run_body(otherwise)


def _branch(node: Node) -> tuple[list[Node], list[Node]]:
    then = next(i for i, child in enumerate(node.children) if child.type == "then")
    end = next(
        (i for i, child in enumerate(node.children) if child.type in _BRANCH_ENDS),
        len(node.children),
    )
    return _statements(node.children[1:then]), node.children[then + 1 : end]


_BRANCH_ENDS = frozenset({"elif_clause", "else_clause", "fi"})


def _statements(nodes: Sequence[Node]) -> list[Node]:
    return [node for node in nodes if node.is_named and node.type != "comment"]


async def while_statement(shell: Interpreter, node: Node) -> int:
    """`while` and `until`."""
    until = node.children[0].type == "until"
    body = _body(node)
    tests = [child for child in _statements(node.children) if child.type != "do_group"]

    async def holds() -> bool:
        return await shell.condition(tests) != until

    return await _loop(shell, body, holds)


async def for_statement(shell: Interpreter, node: Node) -> int:
    """`for name in words`."""
    name = text_of(node.named_children[0])
    has_list = any(child.type == "in" for child in node.children)
    words = [child for child in node.named_children[1:] if child.type in WORDS]
    values = await shell.words.arguments(words) if has_list else list(shell.variables.arguments)
    remaining = iter(values)

    async def take_next() -> bool:
        value = next(remaining, None)
        if value is not None:
            shell.variables.set(name, value)
        return value is not None

    return await _loop(shell, _body(node), take_next)


async def c_style_for(shell: Interpreter, node: Node) -> int:
    """`for ((i = 0; i < n; i++))`."""
    source = text_of(node)
    inner = source[source.index("((") + 2 : source.index("))")]
    first, test, step = ([*inner.split(";"), "", ""])[:3]
    await shell.words.number(first)
    started = False

    async def proceed() -> bool:
        nonlocal started
        if started:
            await shell.words.number(step)
        started = True
        return not test.strip() or bool(await shell.words.number(test))

    return await _loop(shell, _body(node), proceed)


def _body(node: Node) -> Node:
    return next(
        child for child in node.named_children if child.type in {"do_group", "compound_statement"}
    )


async def _loop(shell: Interpreter, body: Node, proceed: Callable[[], Awaitable[bool]]) -> int:
    before, shell.process.in_loop = shell.process.in_loop, True
    code = 0
    try:
        while await proceed():
            # A loop that never sleeps must let others work.
            await asyncio.sleep(0)
            try:
                code = await shell.run_body(body)
            except LoopContinue as signal:
                if signal.outer_levels:
                    raise LoopContinue(signal.outer_levels - 1) from signal
    except LoopBreak as signal:
        if signal.outer_levels:
            raise LoopBreak(signal.outer_levels - 1) from signal
        code = 0
    finally:
        shell.process.in_loop = before
    return code


async def case_statement(shell: Interpreter, node: Node) -> int:
    """`case word in pattern) … ;; esac`."""
    subject = await shell.words.text(node.named_children[0])
    for item in node.named_children[1:]:
        if item.type != "case_item":
            continue
        close = next(i for i, child in enumerate(item.children) if child.type == ")")
        for pattern in _statements(item.children[:close]):
            if conditions.matches(subject, await shell.words.pattern(pattern)):
                return await shell.run_all(item.children[close + 1 :])
    return 0


async def function_definition(shell: Interpreter, node: Node) -> int:
    """`name() { … }`."""
    shell.state.functions[text_of(node.named_children[0])] = node.named_children[-1]
    return 0


async def compound_statement(shell: Interpreter, node: Node) -> int:
    """`{ … }` and `(( … ))`."""
    if node.children and node.children[0].type == "((":
        return int(not await shell.words.number(text_of(node)[2:-2]))
    return await shell.run_body(node)


async def subshell(shell: Interpreter, node: Node) -> int:
    """`( … )`."""
    inner = shell.subshell()
    try:
        return await inner.run_body(node)
    except ShellExit as end:
        return end.code


async def test_command(shell: Interpreter, node: Node) -> int:
    """`[ … ]` and `[[ … ]]`."""
    inner = _statements(node.children)
    if not inner:
        return 1
    if node.children[0].type == "[[":
        return int(not await _holds(shell, inner[0]))
    words = await _test_words(shell, inner)
    files, directory = shell.process.files, shell.process.directory
    return int(not conditions.evaluate(words, files, directory))


async def _test_words(shell: Interpreter, nodes: Sequence[Node]) -> list[str]:
    """Flatten `[ … ]` into the words of `test`: it splits them and counts, as a command does."""
    words: list[str] = []
    for node in nodes:
        if node.type in _EXPRESSIONS:
            words += await _test_words(shell, node.children)
        elif node.type in WORDS:
            words += await shell.words.arguments([node])
        else:
            words.append(text_of(node))
    return words


_EXPRESSIONS = frozenset({"binary_expression", "unary_expression", "parenthesized_expression"})


async def _holds(shell: Interpreter, node: Node) -> bool:
    match node.type:
        case "parenthesized_expression":
            return await _holds(shell, node.named_children[0])
        case "negated_command":
            return not await shell.condition([node.named_children[-1]])
        case "unary_expression":
            sign, operand = node.children[0], node.children[-1]
            if sign.type == "!":
                return not await _holds(shell, operand)
            value = await shell.words.text(operand)
            return conditions.unary(
                text_of(sign), value, shell.process.files, shell.process.directory
            )
        case "binary_expression":
            return await _compares(shell, node)
    return bool(await shell.words.text(node))


async def _compares(shell: Interpreter, node: Node) -> bool:
    left, sign, right = node.children[0], text_of(node.children[1]), node.children[-1]
    if sign in {"&&", "-a"}:
        return await _holds(shell, left) and await _holds(shell, right)
    if sign in {"||", "-o"}:
        return await _holds(shell, left) or await _holds(shell, right)
    value = await shell.words.text(left)
    if sign == "=~":
        return conditions.matches_expression(value, await shell.words.text(right))
    if sign in {"==", "=", "!="}:
        same = conditions.matches(value, await shell.words.pattern(right))
        return same != (sign == "!=")
    return conditions.binary(value, sign, await shell.words.text(right))


async def declaration(shell: Interpreter, node: Node) -> int:
    """`export`, `local`, `readonly`, `declare`."""
    keyword = node.children[0].type
    flags = "".join(text_of(child) for child in node.children if text_of(child).startswith("-"))
    local = keyword == "local" or (keyword in {"declare", "typeset"} and "g" not in flags)
    exported = keyword == "export" or "x" in flags
    for child in node.named_children:
        text = text_of(child)
        if text.startswith("-"):
            continue
        names = [text.partition("=")[0].partition("[")[0].rstrip("+")]
        if local:
            shell.variables.declare_local(names[0])
        if child.type == "variable_assignment":
            await shell.assign(child)
        elif child.type in WORDS:
            names = [
                await _assign_word(shell, word) for word in await shell.words.arguments([child])
            ]
        if exported:
            for name in names:
                shell.variables.export(name)
    return 0


async def _assign_word(shell: Interpreter, word: str) -> str:
    """Carry out `export "$name=value"`, which only shows as an assignment once it is expanded."""
    name, has_value, value = word.partition("=")
    if has_value:
        shell.variables.set(name, value)
    return name


async def unset(shell: Interpreter, node: Node) -> int:
    """`unset names`."""
    for child in node.named_children:
        name = text_of(child)
        if not name.startswith("-"):
            shell.variables.unset(name)
            shell.state.functions.pop(name, None)
    return 0


COMPOUNDS: dict[str, Callable[[Interpreter, Node], Awaitable[int]]] = {
    "negated_command": negated,
    "if_statement": if_statement,
    "while_statement": while_statement,
    "for_statement": for_statement,
    "c_style_for_statement": c_style_for,
    "case_statement": case_statement,
    "function_definition": function_definition,
    "compound_statement": compound_statement,
    "subshell": subshell,
    "test_command": test_command,
    "declaration_command": declaration,
    "unset_command": unset,
}
