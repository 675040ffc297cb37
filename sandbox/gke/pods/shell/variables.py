"""Variables of a running shell.

Owns names, arrays, positional parameters, exports and local scopes.
"""

from __future__ import annotations

from collections.abc import Sequence


class Variables:
    """What `$name` may mean; exported ones are the environment of programs."""

    def __init__(self, environment: dict[str, str], arguments: Sequence[str]) -> None:
        self._values: dict[str, str | list[str]] = dict(environment)
        self._exported = set(environment)
        self._scopes: list[dict[str, str | list[str] | None]] = []
        self.script = arguments[0] if arguments else "sh"
        self.arguments = list(arguments[1:])

    @property
    def environment(self) -> dict[str, str]:
        """The exported variables."""
        return {name: self.get(name) or "" for name in self._exported if name in self._values}

    def get(self, name: str) -> str | None:
        """Return a variable's value, the first element of an array, or None."""
        if name.isdigit():
            return self._positional(int(name))
        value = self._values.get(name)
        if isinstance(value, list):
            return value[0] if value else None
        return value

    def elements(self, name: str) -> list[str]:
        """Return all elements of an array; a plain variable has one."""
        if name in {"@", "*"}:
            return self.arguments
        value = self._values.get(name)
        if value is None:
            return []
        return value if isinstance(value, list) else [value]

    def set(self, name: str, value: str | list[str]) -> None:
        """Set a variable."""
        self._values[name] = value

    def set_element(self, name: str, index: int, value: str) -> None:
        """Set one element of an array; missing ones before it become empty."""
        elements = list(self.elements(name))
        elements += [""] * (index + 1 - len(elements))
        elements[index] = value
        self._values[name] = elements

    def append(self, name: str, value: str | list[str]) -> None:
        """Carry out `name+=value`."""
        before = self._values.get(name)
        if isinstance(value, list):
            self._values[name] = self.elements(name) + value
        elif isinstance(before, list):
            self._values[name] = [*before, value]
        else:
            self._values[name] = (before or "") + value

    def unset(self, name: str) -> None:
        """Forget a variable."""
        self._values.pop(name, None)
        self._exported.discard(name)

    def export(self, name: str) -> None:
        """Make a variable part of the environment."""
        self._exported.add(name)

    def names(self, *, exported_only: bool = False) -> list[str]:
        """List the names that are set, sorted."""
        names = self._exported & set(self._values) if exported_only else set(self._values)
        return sorted(names)

    def declare_local(self, name: str) -> None:
        """Make the next change of a variable end with the running function."""
        if self._scopes and name not in self._scopes[-1]:
            self._scopes[-1][name] = self._values.get(name)

    def enter_function(self, arguments: Sequence[str]) -> list[str]:
        """Start a scope with its own positional parameters; return the old ones."""
        self._scopes.append({})
        before, self.arguments = self.arguments, list(arguments)
        return before

    def leave_function(self, arguments: list[str]) -> None:
        """End the scope: local variables get their old values."""
        for name, value in self._scopes.pop().items():
            if value is None:
                self._values.pop(name, None)
            else:
                self._values[name] = value
        self.arguments = arguments

    def copy(self) -> Variables:
        """Copy everything, for a subshell."""
        other = Variables({}, [self.script, *self.arguments])
        other._values = {
            name: list(value) if isinstance(value, list) else value
            for name, value in self._values.items()
        }
        other._exported = set(self._exported)
        other._scopes = [dict(scope) for scope in self._scopes]
        return other

    def _positional(self, number: int) -> str | None:
        if number == 0:
            return self.script
        return self.arguments[number - 1] if number <= len(self.arguments) else None
