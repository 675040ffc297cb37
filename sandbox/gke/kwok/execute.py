"""The local command behind `kubectl exec`: passes streams between kwok and the simulation.

Owns nothing of the command that the user typed; the simulation runs that. Started by kwok as
`execute.py PORT TICKET`; imports little, because it starts for each exec.
"""

import os
import socket
import struct
import sys
import threading

HEADER = struct.Struct(">cI")
STDOUT, STDERR, EXIT = b"O", b"E", b"X"


def main() -> int:
    """Connect, show what comes, and return the exit code that the simulation sends."""
    port, ticket = int(sys.argv[1]), sys.argv[2]
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(ticket.encode() + b"\n")
        threading.Thread(target=_send_input, args=(connection,), daemon=True).start()
        with connection.makefile("rb") as stream:
            while True:
                header = stream.read(HEADER.size)
                if len(header) < HEADER.size:
                    return 137
                kind, size = HEADER.unpack(header)
                data = stream.read(size)
                if kind == EXIT:
                    return int(data)
                os.write(1 if kind == STDOUT else 2, data)


def _send_input(connection: socket.socket) -> None:
    try:
        while data := os.read(0, 65536):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        # The simulation closed the connection: the command is over.
        return


if __name__ == "__main__":
    # Threads that still read must not keep the process.
    code = main()
    sys.stdout.flush()
    os._exit(code)
