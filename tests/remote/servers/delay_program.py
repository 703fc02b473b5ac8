"""The delaying proxy: `python -m tests.remote.servers.delay_program PORT TARGET CONTROL S`.

It forwards bytes from PORT to TARGET after S seconds, and the answers back after S seconds; a new
connection costs a round trip more, as it does on a real line. Each connection to CONTROL gets
its counts, as a line of JSON. One trio loop, no threads. The bytes stay in pipes of the kernel,
so that a benchmark on the same cores measures other programs.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import socket
import sys
from dataclasses import dataclass

import trio

_PIECE = 1 << 20
_PIECES_UNDER_WAY = 64  # in each direction of a connection


@dataclass(frozen=True)
class Pipe:
    read: int
    write: int


class Pipes:
    """The pipes of one direction; a free one is empty."""

    def __init__(self) -> None:
        self._all: list[Pipe] = []
        self._free: list[Pipe] = []

    def __enter__(self) -> Pipes:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._all:
            os.close(pipe.read)
            os.close(pipe.write)

    def take(self) -> Pipe:
        if self._free:
            return self._free.pop()
        pipe = Pipe(*os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK))
        self._all.append(pipe)
        with contextlib.suppress(PermissionError):  # then pieces are smaller
            fcntl.fcntl(pipe.write, fcntl.F_SETPIPE_SZ, _PIECE)
        return pipe

    def give_back(self, pipe: Pipe) -> None:
        self._free.append(pipe)


class DelayingProxy:
    def __init__(self, target: int, latency_s: float) -> None:
        self._target = target
        self._latency_s = latency_s
        self._counts = {"connections": 0, "bytes_up": 0, "bytes_down": 0}

    async def tell(self, stream: trio.SocketStream) -> None:
        await stream.send_all(json.dumps(self._counts).encode() + b"\n")
        await stream.aclose()

    async def carry(self, client: trio.SocketStream) -> None:
        self._counts["connections"] += 1
        established_s = trio.current_time() + 2 * self._latency_s
        try:
            server = await trio.open_tcp_stream("127.0.0.1", self._target)
        except OSError:
            await client.aclose()
            return
        async with client, server, trio.open_nursery() as nursery:
            for each in (client, server):
                each.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            nursery.start_soon(self._pump, client, server, "bytes_up", established_s)
            nursery.start_soon(self._pump, server, client, "bytes_down", 0.0)

    async def _pump(
        self, source: trio.SocketStream, target: trio.SocketStream, counter: str, earliest_s: float
    ) -> None:
        """Carry bytes until the source ends; after the last one, the target gets that end."""
        pieces, due = trio.open_memory_channel[tuple[float, Pipe, int]](_PIECES_UNDER_WAY)
        with Pipes() as pipes:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_send, due, target, pipes)
                async with pieces:
                    # The source was reset, or _send() has ended, as its target is broken.
                    with contextlib.suppress(trio.BrokenResourceError, OSError):
                        while True:
                            await trio.lowlevel.wait_readable(source.socket)
                            come_s = max(trio.current_time(), earliest_s)
                            # Few large pieces cost less than many small ones; this wait is short.
                            await trio.sleep(self._latency_s / 8)
                            pipe = pipes.take()
                            try:
                                size = _splice(source.socket.fileno(), pipe.write, _PIECE)
                            except BlockingIOError:  # there was nothing after all
                                pipes.give_back(pipe)
                                continue
                            if not size:
                                break
                            self._counts[counter] += size
                            await pieces.send((come_s + self._latency_s, pipe, size))


async def _send(
    due: trio.MemoryReceiveChannel[tuple[float, Pipe, int]], target: trio.SocketStream, pipes: Pipes
) -> None:
    async with due:
        # If the target is broken, this closes `due`, and the next pieces.send() ends the reading.
        with contextlib.suppress(trio.BrokenResourceError, OSError):
            async for at_s, pipe, size in due:
                await trio.sleep_until(at_s)
                left = size
                while left:
                    await trio.lowlevel.wait_writable(target.socket)
                    with contextlib.suppress(BlockingIOError):
                        left -= _splice(pipe.read, target.socket.fileno(), left)
                        # splice() may end with MSG_MORE: the kernel then keeps the last segment
                        # for 200 ms. Setting TCP_NODELAY sends it, also when it is set already.
                        target.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                pipes.give_back(pipe)
            await target.send_eof()


def _splice(source: int, target: int, size: int) -> int:
    return os.splice(source, target, size, flags=os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK)


async def main(port: int, target: int, control: int, latency_s: float) -> None:
    proxy = DelayingProxy(target, latency_s)
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(port, host="127.0.0.1", backlog=1024)
        telling = await trio.open_tcp_listeners(control, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, proxy.carry, listeners)
        nursery.start_soon(trio.serve_listeners, proxy.tell, telling)


if __name__ == "__main__":
    port, target, control = map(int, sys.argv[1:4])
    latency_s = float(sys.argv[4])
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    trio.run(main, port, target, control, latency_s)
