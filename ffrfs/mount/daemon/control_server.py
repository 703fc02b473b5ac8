"""The control socket of a daemon: a Unix socket beside its state file, which answers requests.

A client sends one JSON object a line, {"command": "stats"}, and gets one line for each:
{"result": ...} or {"error": "one line"}. Requests are hostile: the length of a line, the
number of clients and every wait are bounded, and no request ends the daemon. It answers only
its own user and root. A command may hand the connection over after the answer: the control
server then reads no more of it.

Concurrency: tasks of the daemon's trio loop. A command's handler runs to its end without
giving way, so it must not wait for a disk, nor for the mount.

Not here: the socket itself (control_socket.py), the commands, which server.py provides, the
client (control_client.py).
"""

from __future__ import annotations

import json
import logging
import os
import socket
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import trio

from ffrfs.errors import MountError, describe

LINE_SIZE_MAX = 1 << 16
CLIENTS_MAX = 16
# A client is dropped if by then it has not sent a whole line, or has not read its answer.
IDLE_TIMEOUT_S = 10.0
_COMMAND_SIZE_SHOWN = 40
_PEER = struct.Struct("iII")  # struct ucred: pid, uid, gid

Request = Mapping[str, object]
Handler = Callable[[Request], object]  # returns a JSON value, or a HandOver

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HandOver:
    """A handler's result: the client gets `result` as its answer, and `take` gets the client.

    `take` gets a non-blocking descriptor, which it must copy: the server closes its own.
    """

    take: Callable[[int], None]
    result: Mapping[str, object] = field(default_factory=dict)


class ControlServer:
    """Answers on a listening socket, which it closes at its end, or when it gets another one."""

    def __init__(self, listener: socket.socket | None, commands: Mapping[str, Handler]) -> None:
        """`listener`: None while no command can ask."""
        self._listener = listener
        self._commands = commands
        self._client_count = 0
        self._accepting = trio.CancelScope()

    async def run(self) -> None:
        """Accept clients until cancelled."""
        logging.getLogger("trio.serve_listeners").addFilter(_in_one_line)
        async with trio.open_nursery() as clients:
            while True:
                with trio.CancelScope() as self._accepting:
                    if self._listener is None:
                        await trio.sleep_forever()
                    listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._listener))
                    await trio.serve_listeners(self._serve, [listener], handler_nursery=clients)

    def listen_on(self, listener: socket.socket | None) -> None:
        """Accept clients there from now on; those of an earlier listener stay."""
        if listener is not self._listener:
            self._listener = listener
            self._accepting.cancel()

    async def _serve(self, stream: trio.SocketStream) -> None:
        """Serve one client. An exception let out here would end the mount."""
        self._client_count += 1
        try:
            async with stream:
                if not _is_welcome(stream):
                    return
                if self._client_count > CLIENTS_MAX:
                    await _send(stream, _error("too many clients; try again"))
                    return
                await self._converse(stream)
        except (trio.BrokenResourceError, trio.TooSlowError):
            log.debug("a client of the control socket has gone, or does nothing")
        except Exception:
            log.exception("a client of the control socket")
        finally:
            self._client_count -= 1

    async def _converse(self, stream: trio.SocketStream) -> None:
        pending = bytearray()
        while True:
            with trio.fail_after(IDLE_TIMEOUT_S):
                while (end := pending.find(b"\n")) < 0:
                    room = LINE_SIZE_MAX - len(pending)
                    if room == 0:
                        await _send(stream, _error(f"a request over {LINE_SIZE_MAX} bytes"))
                        return
                    chunk = await stream.receive_some(room)
                    if not chunk:
                        return
                    pending += chunk
            line = bytes(pending[:end])
            del pending[: end + 1]
            answer = self._answer(line)
            if isinstance(answer, HandOver):
                await _hand_over(stream, answer, pending)
                return
            await _send(stream, answer)

    def _answer(self, line: bytes) -> dict[str, object] | HandOver:
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            return _error("a request is one line of JSON")
        command = request.get("command") if isinstance(request, dict) else None
        if not isinstance(command, str):
            return _error('a request is {"command": NAME}')
        handler = self._commands.get(command)
        if handler is None:
            return _error(f"no such command: {command[:_COMMAND_SIZE_SHOWN]!a}")
        try:
            result = handler(request)
            return result if isinstance(result, HandOver) else {"result": result}
        except MountError as error:
            return _error(describe(error))
        except Exception as error:
            log.exception("the command %s failed", command)
            return _error(describe(error))


def _in_one_line(record: logging.LogRecord) -> bool:
    # When a daemon cannot open more files, the traceback within trio is of no use.
    record.exc_info = None
    return True


async def _hand_over(stream: trio.SocketStream, to: HandOver, pending: bytearray) -> None:
    if pending:  # these bytes would be lost for the new owner of the connection
        await _send(stream, _error("bytes behind a request that takes the connection over"))
        return
    await _send(stream, {"result": to.result})
    to.take(stream.socket.fileno())


async def _send(stream: trio.SocketStream, answer: Mapping[str, object]) -> None:
    with trio.fail_after(IDLE_TIMEOUT_S):
        await stream.send_all(json.dumps(answer).encode("ascii") + b"\n")


def _error(text: str) -> dict[str, object]:
    return {"error": text}


def _is_welcome(stream: trio.SocketStream) -> bool:
    peer = stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    _, user_id, _ = _PEER.unpack(peer)
    return user_id in (0, os.geteuid())
