"""The faulty server's process: `python -m tests.remote.servers.faulty_program ROOT PORT CONTROL`.

It serves the files below ROOT over HTTP/1.1 and takes orders, lines of JSON, at the port CONTROL:
faults, latency, bandwidth; and it counts requests. One trio loop, no threads: nothing else runs
between two awaits.
"""

from __future__ import annotations

import json
import math
import socket
import struct
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import h11
import trio

from tests.remote.servers.answer import Answer, End, Request, answer_to
from tests.remote.servers.fault import Fault

_REQUESTS_KEPT = 200_000


class FaultyServer:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._faults: list[list[Any]] = []  # [fault, how many requests it has fitted]
        self._latency_s = 0.0
        self._bytes_per_s = math.inf
        self._free_at_s = 0.0  # when the line will have sent all bytes so far
        self._under_way = 0
        self._forget()

    def _forget(self) -> None:
        self._requests: list[tuple[str, str, str, int, int]] = []
        self._bytes: Counter[str] = Counter()
        self._most_under_way = 0

    async def control(self, stream: trio.SocketStream) -> None:
        text = b""
        async for piece in stream:
            text += piece
            while b"\n" in text:
                line, text = text.split(b"\n", 1)
                reply = self._obey(json.loads(line))
                await stream.send_all(json.dumps(reply).encode() + b"\n")

    def _obey(self, order: dict[str, Any]) -> Any:
        match order["do"]:
            case "fault":
                self._faults.append([Fault.from_json(order["fault"]), 0])
            case "mend":
                self._faults.clear()
            case "shape":
                self._latency_s = order["latency_s"]
                self._bytes_per_s = order["bytes_per_s"] or math.inf
                self._free_at_s = 0.0
            case "forget":
                self._forget()
            case "count":
                return {
                    "requests": self._requests,
                    "bytes": dict(self._bytes),
                    "most_under_way": self._most_under_way,
                }
        return None

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection, request after request."""
        stream.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = h11.Connection(h11.SERVER)
        try:
            while (event := await _next_request(connection, stream)) is not None:
                self._under_way += 1
                self._most_under_way = max(self._most_under_way, self._under_way)
                try:
                    await self._answer(connection, stream, event)
                finally:
                    self._under_way -= 1
                if connection.our_state is not h11.DONE:
                    break
                connection.start_next_cycle()
        except (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError):
            pass  # the client went away, or speaks no HTTP
        finally:
            stream.socket.close()

    async def _answer(
        self, connection: h11.Connection, stream: trio.SocketStream, event: h11.Request
    ) -> None:
        headers = {name.decode(): value.decode("latin-1") for name, value in event.headers}
        path = unquote(event.target.decode("latin-1").partition("?")[0])
        request = Request(event.method.decode(), path, headers)
        wanted = headers.get("range", "")
        await trio.sleep(2 * self._latency_s)
        answer = answer_to(request, self._root, self._fault_for(request))
        sent = await self._send(connection, stream, answer, request)
        self._bytes[path] += sent
        if len(self._requests) < _REQUESTS_KEPT:
            self._requests.append((request.method, path, wanted, answer.status, sent))

    def _fault_for(self, request: Request) -> Fault | None:
        for entry in self._faults:
            fault, fitted = entry
            if not request.path.startswith(fault.below):
                continue
            if fault.method not in (None, request.method):
                continue
            entry[1] += 1
            if fitted >= fault.after and (
                fault.times is None or fitted < fault.after + fault.times
            ):
                return fault
        return None

    async def _send(
        self,
        connection: h11.Connection,
        stream: trio.SocketStream,
        answer: Answer,
        request: Request,
    ) -> int:
        """Send the answer; return how many bytes of its body were sent."""
        if answer.status == 0:
            await self._send_no_http(stream, answer)
            return 0
        head = h11.Response(status_code=answer.status, headers=list(answer.headers.items()))
        await stream.send_all(connection.send(head))
        sent = 0
        if request.method != "HEAD":
            for piece in answer.body:
                await self._wait_for_line(len(piece))
                await stream.send_all(connection.send(h11.Data(data=piece)))
                sent += len(piece)
        match answer.end:
            case End.WELL:
                await stream.send_all(connection.send(h11.EndOfMessage()))
            case End.RESET:
                stream.socket.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
            case End.STALL:
                await _stall(stream)
        return sent

    async def _send_no_http(self, stream: trio.SocketStream, answer: Answer) -> None:
        if answer.end is End.STALL:
            await _stall(stream)
            return
        await stream.send_all(b"HTTP/1.1 206 Partial Content\r\n")
        for piece in answer.body:
            await self._wait_for_line(len(piece))
            await stream.send_all(piece)

    async def _wait_for_line(self, size: int) -> None:
        """Wait for the bandwidth, which all connections share."""
        now_s = trio.current_time()
        self._free_at_s = max(self._free_at_s, now_s) + size / self._bytes_per_s
        await trio.sleep(self._free_at_s - now_s)


async def _stall(stream: trio.SocketStream) -> None:
    """Wait until the client has given up."""
    while await stream.receive_some():
        pass


async def _next_request(
    connection: h11.Connection, stream: trio.SocketStream
) -> h11.Request | None:
    """Read a request to its end; return it without its body, or None if the client has closed."""
    request = None
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await stream.receive_some(1 << 16))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.EndOfMessage):
            return request
        elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
            return None


async def main(root: Path, port: int, control_port: int) -> None:
    server = FaultyServer(root)
    async with trio.open_nursery() as nursery:
        serve = await trio.open_tcp_listeners(port, host="127.0.0.1", backlog=1024)
        control = await trio.open_tcp_listeners(control_port, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, server.serve, serve)
        nursery.start_soon(trio.serve_listeners, server.control, control)


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
