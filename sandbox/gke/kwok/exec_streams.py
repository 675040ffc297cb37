"""The two things in the streams of `kubectl exec` that kwok does not pass on.

Owns reading SPDY frames on their way: a failed Status that says `exit status N` gets the form in
which a kubelet reports an exit code (kwok calls it an internal error), and the end of standard
input is noticed (kwok leaves the command's standard input open). All other bytes pass as they are.
Sources: SPDY/3.1 framing; Kubernetes' remotecommand (`NonZeroExitCode`; the client opens its
streams in the order error, stdin, stdout, stderr, so that stdin has the second odd number).
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator

_HEADER = struct.Struct(">II")
_CONTROL = 0x80000000
_LENGTH = 0x00FFFFFF
_EXIT = re.compile(r"exit status (\d+)")
_END_OF_HEAD = b"\r\n\r\n"
_STDIN_STREAM = 3
_LAST_FRAME = 0x01


class _Frames:
    """Cuts bytes that follow an HTTP head into SPDY frames."""

    def __init__(self) -> None:
        self._rest = b""

    def cut(self, data: bytes) -> Iterator[tuple[bytes, int, int]]:
        """Yield complete frames with the two words of their headers."""
        self._rest += data
        while len(self._rest) >= _HEADER.size:
            first, second = _HEADER.unpack_from(self._rest)
            end = _HEADER.size + (second & _LENGTH)
            if len(self._rest) < end:
                return
            frame, self._rest = self._rest[:end], self._rest[end:]
            yield frame, first, second


class ExitCodeStream:
    """Takes bytes as they come from kwok and returns what to pass on."""

    def __init__(self) -> None:
        self._head = b""
        self._upgraded: bool | None = None
        self._frames = _Frames()

    def pass_on(self, data: bytes) -> bytes:
        """Return the bytes that are complete."""
        if self._upgraded is False:
            return data
        done = b""
        if self._upgraded is None:
            head, found, rest = (self._head + data).partition(_END_OF_HEAD)
            if not found:
                self._head = head
                return b""
            self._upgraded = b"upgrade: spdy" in head.lower()
            if not self._upgraded:
                return head + found + rest
            done, data = head + found, rest
        for frame, first, second in self._frames.cut(data):
            done += frame if first & _CONTROL else _data_frame(frame, first, second)
        return done


class InputEndStream:
    """Watches the bytes that go to kwok for the end of standard input."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        self._frames = _Frames()

    def pass_on(self, data: bytes) -> bytes:
        """Return the bytes unchanged."""
        for _, first, second in self._frames.cut(data):
            if first == _STDIN_STREAM and second >> 24 & _LAST_FRAME:
                self._ended()
        return data


def _data_frame(frame: bytes, stream: int, second: int) -> bytes:
    payload = frame[_HEADER.size :]
    changed = _with_exit_code(payload)
    if changed is None:
        return frame
    flags = second & ~_LENGTH
    return _HEADER.pack(stream, flags | len(changed)) + changed


def _with_exit_code(payload: bytes) -> bytes | None:
    """Return a Status with the exit code where a kubelet puts it; None for any other data."""
    if not payload.startswith(b"{") or b'"Failure"' not in payload:
        return None
    try:
        status = json.loads(payload)
    except ValueError:
        return None
    match = _EXIT.search(str(status.get("message", "")))
    if status.get("status") != "Failure" or match is None:
        return None
    code = match[1]
    return json.dumps(
        {
            "metadata": {},
            "status": "Failure",
            "message": f"command terminated with non-zero exit code: exit status {code}",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": code}]},
        }
    ).encode()
