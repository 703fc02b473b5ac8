"""What every engine offers the daemon, and where the daemon gets one.

An engine opens the pack, and then answers the kernel's requests on a connection that
the daemon made (kernel_mount.attach). It knows nothing of mount points, signals or
readiness. A second engine joins here, and in the mount tests' list of engines.
"""

from __future__ import annotations

from typing import Protocol

from ffrfs.mount.request import MountRequest


class Engine(Protocol):
    """Serves one tree on one connection."""

    @property
    def notices(self) -> list[str]:
        """What the user should know although the pack opened: one line each."""
        ...

    async def serve(self, connection: int) -> None:
        """Answer requests until the kernel ends the connection (the last user is gone).

        Takes the descriptor over. Cancelling it ends the connection: readers get
        ENOTCONN.
        """
        ...


def open_engine(request: MountRequest) -> Engine:
    """Open the pack; raises what is wrong with it before anything is mounted."""
    # Imported here: the process that waits for the daemon needs neither trio nor pyfuse3.
    from ffrfs.mount.pyfuse3_engine import Pyfuse3Engine

    return Pyfuse3Engine(request)
