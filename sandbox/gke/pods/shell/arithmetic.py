"""`$(( ))` and `(( ))`.

Owns integer arithmetic with the operators that scripts use; variables are read and assigned
through two functions.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable

_ASSIGNMENT = re.compile(r"\s*([A-Za-z_]\w*)\s*(\+|-|\*|/|%)?=(?!=)(.*)", re.DOTALL)
_STEP = re.compile(r"\s*(?:([A-Za-z_]\w*)\s*(\+\+|--)|(\+\+|--)\s*([A-Za-z_]\w*))\s*")
_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: lambda left, right: int(left / right),
    ast.Mod: lambda left, right: left - int(left / right) * right,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.Pow: operator.pow,
}
_COMPARE: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


class ArithmeticSyntaxError(Exception):
    """The expression cannot be read; the text is what bash prints."""


def evaluate(
    expression: str,
    get: Callable[[str], str | None],
    assign: Callable[[str, str], None],
) -> int:
    """Evaluate an expression whose `$` parts were already expanded.

    Args:
        expression: Text between the parentheses.
        get: Reads a variable.
        assign: Sets a variable.

    Raises:
        ArithmeticSyntaxError: it is no expression, or divides by zero.
    """
    if not expression.strip():
        return 0
    step = _STEP.fullmatch(expression)
    if step is not None:
        name, sign, sign_before, name_after = step.groups()
        before = _number(get(name or name_after) or "0")
        after = before + (1 if (sign or sign_before) == "++" else -1)
        assign(name or name_after, str(after))
        return before if name else after
    assignment = _ASSIGNMENT.fullmatch(expression)
    if assignment is not None:
        name, sign, right = assignment.groups()
        value = evaluate(right, get, assign)
        if sign:
            value = evaluate(f"{name} {sign} ({value})", get, assign)
        assign(name, str(value))
        return value
    return _Evaluator(expression, get).value()


def _number(text: str) -> int:
    text = text.strip()
    try:
        return int(text, 8) if re.fullmatch(r"0[0-7]+", text) else int(text, 0)
    except ValueError as error:
        raise ArithmeticSyntaxError(f"{text}: syntax error: operand expected") from error


class _Evaluator:
    def __init__(self, expression: str, get: Callable[[str], str | None]) -> None:
        self._expression = expression
        self._get = get

    def value(self) -> int:
        python = self._expression.replace("&&", " and ").replace("||", " or ")
        python = re.sub(r"!(?!=)", " not ", python).replace("/", "//").strip()
        python = re.sub(r"\b0+(?=\d)", "", python)
        try:
            tree = ast.parse(python, mode="eval")
        except SyntaxError as error:
            raise ArithmeticSyntaxError(
                f"{self._expression}: syntax error in expression"
            ) from error
        return int(self._visit(tree.body))

    def _visit(self, node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int(value)):
                return value
            case ast.Name(id=name):
                return _number(self._get(name) or "0")
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._visit(operand)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self._visit(operand)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return int(not self._visit(operand))
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
                return self._calculate(type(sign), self._visit(left), self._visit(right))
            case ast.BoolOp(op=ast.And(), values=values):
                return int(all(self._visit(value) for value in values))
            case ast.BoolOp(op=ast.Or(), values=values):
                return int(any(self._visit(value) for value in values))
            case ast.Compare(left=left, ops=[sign], comparators=[right]) if type(sign) in _COMPARE:
                return int(_COMPARE[type(sign)](self._visit(left), self._visit(right)))
        raise ArithmeticSyntaxError(f"{self._expression}: syntax error in expression")

    def _calculate(self, sign: type[ast.operator], left: int, right: int) -> int:
        try:
            return _BINARY[sign](left, right)
        except ZeroDivisionError as error:
            raise ArithmeticSyntaxError(f"{self._expression}: division by 0") from error
