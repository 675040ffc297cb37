"""How `exit`, `return`, `break` and `continue` leave what they stand in."""

from __future__ import annotations


class ShellExit(Exception):  # noqa: N818 - not an error, a way out
    """The shell ends."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class FunctionReturn(Exception):  # noqa: N818
    """The running function or sourced file ends."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class LoopBreak(Exception):  # noqa: N818
    """A loop ends, and `outer_levels` loops around it."""

    def __init__(self, outer_levels: int) -> None:
        super().__init__(outer_levels)
        self.outer_levels = outer_levels


class LoopContinue(Exception):  # noqa: N818
    """A loop goes on with its next round; the loops inside it end."""

    def __init__(self, outer_levels: int) -> None:
        super().__init__(outer_levels)
        self.outer_levels = outer_levels
