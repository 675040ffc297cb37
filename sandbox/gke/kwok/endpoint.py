"""The kubelet endpoint of all nodes: logs from files, `exec` through kwok into the simulation.

Owns the HTTPS server that the API server talks to. `exec` requests are passed on to kwok, which
speaks the streaming protocols, with the command replaced by one that asks back here: the command
that the user typed runs in the simulation and nowhere else. It trusts whoever reaches it on
loopback, since nothing real can be done through it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import ssl
import sys
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, parse_qsl, quote, urlsplit

from sandbox.gke.cluster_folder import ClusterFolder
from sandbox.gke.kwok.configuration import KubeletPorts
from sandbox.gke.kwok.exec_streams import ExitCodeStream, InputEndStream
from sandbox.gke.kwok.execute import EXIT, HEADER, STDERR, STDOUT
from sandbox.gke.kwok.log_reader import newest_log, read_log, read_options
from sandbox.gke.pods.container import Container
from sandbox.gke.pods.logs import log_file
from sandbox.gke.pods.programs.system import run
from sandbox.gke.pods.shell.process import NOT_FOUND
from sandbox.gke.pods.shell.streams import LineReader
from sandbox.gke.pods.world import World

_EXECUTE = Path(__file__).with_name("execute.py")
_TICKET_SECONDS = 30.0
_LAST_INPUT_SECONDS = 0.3
_CLOSE_SECONDS = 1.0
_log = logging.getLogger(__name__)


class _Answer(Exception):  # noqa: N818 - an HTTP answer, not an error of this program
    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


@dataclass(frozen=True, slots=True)
class _Session:
    """One `kubectl exec`."""

    container: Container
    command: list[str]
    input_ended: asyncio.Event = field(default_factory=asyncio.Event)


class KubeletEndpoint:
    """Serves logs and exec; use it as an asynchronous context manager."""

    def __init__(self, world: World, ports: KubeletPorts) -> None:
        self._world = world
        self._ports = ports
        self._tickets: dict[str, _Session] = {}
        self._servers: list[asyncio.Server] = []
        self._exec_port = 0
        self._connections: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        certificates = ClusterFolder(Path(self._world.context.home)).certificates
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.server, certificates.server_key)
        front = await asyncio.start_server(
            self._accept, "127.0.0.1", self._ports.endpoint, ssl=context, reuse_address=True
        )
        back = await asyncio.start_server(self._accept_exec, "127.0.0.1", 0)
        self._servers = [front, back]
        self._exec_port = back.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for server in self._servers:
            server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._guard(self._serve(reader, writer), writer)

    async def _accept_exec(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await self._guard(self._serve_exec(reader, writer), writer)

    async def _guard(self, work: Coroutine[None, None, None], writer: asyncio.StreamWriter) -> None:
        """Serve one connection and close it, whatever happens."""
        task = asyncio.current_task()
        if task is not None:
            self._connections.add(task)
        try:
            await work
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            # The client went away.
            pass
        except Exception:  # noqa: BLE001 - one odd request must not end the endpoint
            _log.exception("kubelet endpoint")
        finally:
            try:
                await _close(writer)
            finally:
                if task is not None:
                    self._connections.discard(task)

    # Requests of the API server ------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        line, _, rest = head.decode("latin-1").partition("\r\n")
        method, target, _ = line.split(" ", 2)
        parts = urlsplit(target)
        path = parts.path.strip("/").split("/")
        try:
            match path:
                case ["containerLogs", namespace, pod, container]:
                    query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
                    await self._serve_log(writer, namespace, pod, container, query)
                case ["exec", namespace, pod, *rest_of_path]:
                    container = rest_of_path[-1]
                    found = self._container(namespace, pod, container)
                    session, query_text = self._replace_command(found, parts.query)
                    head_text = f"{method} {parts.path}?{query_text} HTTP/1.1\r\n{rest}"
                    await self._tunnel(reader, writer, head_text, session)
                case ["healthz"]:
                    await _respond(writer, 200, "ok")
                case _:
                    await _respond(writer, 501, f"simulated nodes do not serve {parts.path}")
        except _Answer as answer:
            await _respond(writer, answer.code, answer.text)

    async def _serve_log(
        self,
        writer: asyncio.StreamWriter,
        namespace: str,
        pod: str,
        container: str,
        query: Mapping[str, str],
    ) -> None:
        item = self._world.objects.get((namespace, pod))
        if item is None:
            raise _Answer(404, f'pod "{pod}" not found')
        uid = item["metadata"]["uid"]
        options = read_options(query)
        home = Path(self._world.context.home)
        folder = log_file(home, namespace, pod, uid, container, 0).parent
        path = newest_log(folder, previous=options.previous)
        if path is None:
            if options.previous:
                raise _Answer(
                    400, f'previous terminated container "{container}" in pod "{pod}" not found'
                )
            raise _Answer(
                400,
                f'container "{container}" in pod "{pod}" is waiting to start:'
                f" {_waiting_reason(item, container)}",
            )

        def is_running() -> bool:
            record = self._world.pods.get(uid)
            return record is not None and container in record.containers

        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n"
            b"Connection: close\r\n\r\n"
        )
        async for text in read_log(path, options, is_running):
            data = text.encode()
            writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    def _container(self, namespace: str, pod: str, name: str) -> Container:
        for record in self._world.pods.values():
            if (record.namespace, record.name) == (namespace, pod):
                found = record.containers.get(name)
                if found is not None:
                    return found
        raise _Answer(404, f'container not found ("{name}")')

    def _replace_command(self, container: Container, query: str) -> tuple[_Session, str]:
        """Swap the command for one that comes back here with a ticket for it."""
        pairs = parse_qsl(query, keep_blank_values=True)
        command = [value for key, value in pairs if key == "command"]
        ticket = secrets.token_urlsafe(16)
        self._tickets[ticket] = session = _Session(container, command)
        asyncio.get_running_loop().call_later(
            _TICKET_SECONDS, lambda: self._tickets.pop(ticket, None)
        )
        own = [sys.executable, "-S", "-E", str(_EXECUTE), str(self._exec_port), ticket]
        kept = [(key, value) for key, value in pairs if key != "command"]
        replaced = [*kept, *(("command", word) for word in own)]
        text = "&".join(f"{quote(key)}={quote(value, safe='')}" for key, value in replaced)
        return session, text

    async def _tunnel(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        head: str,
        session: _Session,
    ) -> None:
        """Pass a request on to kwok and every byte after it in both directions."""
        try:
            back_reader, back_writer = await asyncio.open_connection("127.0.0.1", self._ports.kwok)
        except OSError as error:
            raise _Answer(503, f"kwok does not answer: {error}") from error
        back_writer.write(head.encode("latin-1"))
        tasks = [
            asyncio.create_task(
                _copy(reader, back_writer, InputEndStream(session.input_ended.set))
            ),
            asyncio.create_task(_copy(back_reader, writer, ExitCodeStream())),
        ]
        try:
            await tasks[1]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await _close(back_writer)

    # What kwok's local command asks --------------------------------------------------------------

    async def _serve_exec(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ticket = (await reader.readline()).decode().strip()
        found = self._tickets.pop(ticket, None)
        if found is None:
            return
        container, command = found.container, found.command
        process = container.process(_Frames(writer, STDOUT), _Frames(writer, STDERR))
        process.stdin = LineReader(_SocketInput(reader, found.input_ended))
        program = container.program(command[0], process) if command else None
        if program is None:
            await process.complain(
                f'exec failed: unable to start container process: exec: "{command[0]}": '
                + (
                    f"stat {command[0]}: no such file or directory"
                    if "/" in command[0]
                    else "executable file not found in $PATH"
                )
            )
            code = NOT_FOUND
        else:
            code = await run(process, command)
        _frame(writer, EXIT, str(code).encode())
        await writer.drain()


class _Frames:
    """A stream of the running command, sent back as frames."""

    def __init__(self, writer: asyncio.StreamWriter, kind: bytes) -> None:
        self._writer = writer
        self._kind = kind

    async def write(self, text: str) -> None:
        """Send the text."""
        _frame(self._writer, self._kind, text.encode())
        await self._writer.drain()


class _SocketInput:
    """Standard input of the running command."""

    def __init__(self, reader: asyncio.StreamReader, ended: asyncio.Event) -> None:
        self._reader = reader
        self._ended = ended

    async def read(self) -> str | None:
        """Return what came in, None at the end."""
        reading = asyncio.create_task(self._reader.read(65536))
        ending = asyncio.create_task(self._ended.wait())
        try:
            await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
            # What was sent before the end is still on its way through kwok.
            await asyncio.wait({reading}, timeout=_LAST_INPUT_SECONDS)
            data = reading.result() if reading.done() else b""
        finally:
            reading.cancel()
            ending.cancel()
        return data.decode(errors="replace") or None


def _frame(writer: asyncio.StreamWriter, kind: bytes, data: bytes) -> None:
    writer.write(HEADER.pack(kind, len(data)) + data)


async def _copy(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    change: ExitCodeStream | InputEndStream,
) -> None:
    while data := await reader.read(65536):
        writer.write(change.pass_on(data))
        await writer.drain()
    if writer.can_write_eof():
        with contextlib.suppress(OSError):
            writer.write_eof()


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close a connection; one whose other side does not agree in time is cut off."""
    writer.close()
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            await writer.wait_closed()
    except (TimeoutError, OSError):
        writer.transport.abort()
    except asyncio.CancelledError:
        writer.transport.abort()
        raise


async def _respond(writer: asyncio.StreamWriter, code: int, text: str) -> None:
    data = text.encode()
    writer.write(
        f"HTTP/1.1 {code} .\r\nContent-Type: text/plain\r\nContent-Length: {len(data)}\r\n"
        "Connection: close\r\n\r\n".encode()
        + data
    )
    await writer.drain()


def _waiting_reason(pod: Mapping[str, object], container: str) -> str:
    status = pod.get("status")
    if not isinstance(status, dict):
        return "ContainerCreating"
    for group in ("containerStatuses", "initContainerStatuses"):
        for item in status.get(group) or []:
            if item["name"] == container:
                return str((item["state"].get("waiting") or {}).get("reason", "ContainerCreating"))
    return "ContainerCreating"
