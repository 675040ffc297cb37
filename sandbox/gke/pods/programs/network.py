"""Commands that look for other Pods or talk to them: names, ports, ssh."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from sandbox.gke.nccl.hosts import Technology
from sandbox.gke.pods.container import Container
from sandbox.gke.pods.images import ImageKind
from sandbox.gke.pods.shell.interpreter import run_script
from sandbox.gke.pods.shell.process import Process
from sandbox.gke.pods.world import PodRecord

SSH_FAILED = 255
_PLUGIN_IMAGES = frozenset({ImageKind.TCPXO_PLUGIN, ImageKind.TCPX_PLUGIN})
_DAEMON_HEALTH_PORT = 7332
_IMAGE_SSH_PORT = 222
"""Where the plug-in images' sshd listens and their clients connect [facts gpudirect.md §7]."""


class SshError(Exception):
    """A connection fails; the text is what ssh prints."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The container that an ssh connection ends in."""

    pod: PodRecord
    container: Container


def lookup(process: Process, name: str) -> list[PodRecord]:
    """Find the Pods behind a host name."""
    machine = process.machine
    if not isinstance(machine, Container):
        return []
    if name in {"localhost", "127.0.0.1", machine.pod.hostname, machine.pod.name}:
        return [machine.pod]
    hosts_file = process.files.read("/etc/hosts") or ""
    return machine.world.resolve(name, machine.pod.namespace, hosts_file)


def connect(process: Process, host: str, port: int | None) -> Peer:
    """Find the container that an ssh connection reaches.

    Raises:
        SshError: the name does not resolve, nobody listens, or the keys do not fit.
    """
    machine = process.machine
    if not isinstance(machine, Container):
        raise SshError("ssh: no network")
    number = port or default_port(machine)
    found = lookup(process, host)
    if not found:
        raise SshError(f"ssh: Could not resolve hostname {host}: Name or service not known")
    listener = found[0].listeners.get(number)
    if listener is None or not isinstance(listener, Container):
        raise SshError(f"ssh: connect to host {host} port {number}: Connection refused")
    # The key pair is made when an image is built, so it is the same in equal images only.
    if listener.image.full_name != machine.image.full_name:
        raise SshError(f"root@{host}: Permission denied (publickey,password).")
    return Peer(found[0], listener)


def default_port(container: Container) -> int:
    """The port that a container's ssh client connects to when none is given."""
    return _IMAGE_SSH_PORT if container.image.kind in _PLUGIN_IMAGES else 22


async def ssh(process: Process, words: Sequence[str]) -> int:
    """Run a command in another Pod."""
    port: int | None = None
    rest = list(words[1:])
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "-p" and rest:
            port = int(rest.pop(0))
        elif re.fullmatch(r"-p\d+", option):
            port = int(option[2:])
        elif option in {"-o", "-i", "-l", "-F", "-E"} and rest:
            rest.pop(0)
    if not rest:
        await process.complain("usage: ssh [options] destination [command]")
        return SSH_FAILED
    host = rest.pop(0).rpartition("@")[2]
    try:
        peer = connect(process, host, port)
    except SshError as error:
        await process.complain(str(error))
        return SSH_FAILED
    shown = port or default_port(peer.container)
    await process.complain(
        f"Warning: Permanently added '[{host}]:{shown}' (ED25519) to the list of known hosts."
    )
    remote = peer.container.process(process.stdout, process.stderr, login=True)
    remote.stdin = process.stdin
    code = await run_script(remote, " ".join(rest), ["bash"])
    peer.container.world.news.changed()
    return code


async def service(process: Process, words: Sequence[str]) -> int:
    """`service ssh start`."""
    if len(words) < 3 or words[1] not in {"ssh", "sshd"}:
        await process.complain(f"{words[1] if len(words) > 1 else 'service'}: unrecognized service")
        return 1
    machine = process.machine
    if not isinstance(machine, Container):
        return 0
    if machine.image.kind not in _PLUGIN_IMAGES and machine.image.kind is not ImageKind.OTHER:
        await process.complain("ssh: unrecognized service")
        return 1
    if words[2] in {"stop", "restart"}:
        await process.say(" * Stopping OpenBSD Secure Shell server sshd       [ OK ]")
        _stop_listening(machine)
    if words[2] in {"start", "restart"}:
        await process.say(" * Starting OpenBSD Secure Shell server sshd       [ OK ]")
        _listen(machine, default_port(machine))
    return 0


async def sshd(process: Process, words: Sequence[str]) -> int:
    """Start the ssh server; in the foreground with `-D`."""
    machine = process.machine
    if not isinstance(machine, Container):
        return 0
    given = [words[i + 1] for i, word in enumerate(words[:-1]) if word == "-p"]
    _listen(machine, int(given[0]) if given else default_port(machine))
    if any(re.fullmatch(r"-\w*D\w*", word) for word in words[1:]):
        await machine.sleep_for_ever()
    return 0


def _listen(container: Container, port: int) -> None:
    container.pod.listeners[port] = container
    container.ssh_ports.add(port)
    container.world.news.changed()


def _stop_listening(container: Container) -> None:
    for port in container.ssh_ports:
        if container.pod.listeners.get(port) is container:
            del container.pod.listeners[port]
    container.ssh_ports.clear()


async def getent(process: Process, words: Sequence[str]) -> int:
    """`getent hosts NAME`."""
    code = 0
    for name in words[2:]:
        found = lookup(process, name)
        for pod in found:
            await process.say(f"{pod.address:<15} {name}")
        if not found:
            code = 2
    return code


async def nslookup(process: Process, words: Sequence[str]) -> int:
    """`nslookup`, `host` and `dig +short`."""
    names = [word for word in words[1:] if not word.startswith(("-", "+", "@"))]
    found = lookup(process, names[0]) if names else []
    for pod in found:
        await process.say(pod.address if words[0] == "dig" else f"Address: {pod.address}")
    if not found and words[0] != "dig":
        await process.say(f"** server can't find {names[0] if names else ''}: NXDOMAIN")
        return 1
    return 0


async def ping(process: Process, words: Sequence[str]) -> int:
    """Ask once whether a Pod is there."""
    name = words[-1]
    found = lookup(process, name)
    if not found:
        await process.complain(f"ping: {name}: Name or service not known")
        return 2
    await process.say(f"64 bytes from {found[0].address}: icmp_seq=1 ttl=63 time=0.1 ms")
    return 0


async def netcat(process: Process, words: Sequence[str]) -> int:
    """`nc -z host port`."""
    operands = [word for word in words[1:] if not word.startswith("-")]
    if len(operands) < 2 or not operands[-1].isdigit():
        return 1
    found = lookup(process, operands[-2])
    return int(not found or not _is_open(found[0], int(operands[-1]), process))


def _is_open(pod: PodRecord, port: int, process: Process) -> bool:
    if port in pod.listeners:
        return True
    machine = process.machine
    local = isinstance(machine, Container) and machine.pod is pod
    return port == _DAEMON_HEALTH_PORT and local and _is_healthy(pod)


def _is_healthy(pod: PodRecord) -> bool:
    return pod.daemon is not None and pod.daemon.technology is Technology.TCPXO


async def curl(process: Process, words: Sequence[str]) -> int:
    """Fetch an address: the TCPXO daemon's health page, or something outside that succeeds."""
    addresses = [word for word in words[1:] if "://" in word or re.match(r"[\w.-]+:\d+", word)]
    if not addresses:
        return 0
    target = addresses[-1] if "://" in addresses[-1] else f"http://{addresses[-1]}"
    parts = urlsplit(target)
    name, port = parts.hostname or "", parts.port or 80
    if name not in {"localhost", "127.0.0.1"} and not lookup(process, name):
        return 0
    found = lookup(process, name)
    if found and _is_open(found[0], port, process):
        return 0
    await process.complain(f"curl: (7) Failed to connect to {name} port {port}: Connection refused")
    return 7


NETWORK_COMMANDS = {
    "ssh": ssh, "service": service, "sshd": sshd, "getent": getent, "nslookup": nslookup,
    "host": nslookup, "dig": nslookup, "ping": ping, "nc": netcat, "ncat": netcat, "curl": curl,
}  # fmt: skip
