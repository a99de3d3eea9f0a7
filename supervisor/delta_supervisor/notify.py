"""Readiness and watchdog for a service manager: sd_notify(3), which is one datagram per message."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping


class Notifier:
    """Tells the service manager how the stack is; does nothing where there is none."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_interval = _watchdog_seconds(environment)
        """How often `alive` is expected, seconds; None when no watchdog was asked for."""

    def ready(self, status: str) -> None:
        """The stack serves."""
        self._send("READY=1", f"STATUS={status}")

    def status(self, status: str) -> None:
        """One line for `systemctl status`."""
        self._send(f"STATUS={status}")

    def alive(self) -> None:
        """Pet the watchdog: only when every permanent actor answered its heartbeat."""
        self._send("WATCHDOG=1")

    def stopping(self, status: str) -> None:
        """The stack takes no more."""
        self._send("STOPPING=1", f"STATUS={status}")

    def extend(self, seconds: float) -> None:
        """Ask for `seconds` more before the service manager gives up on a start or stop."""
        self._send(f"EXTEND_TIMEOUT_USEC={round(seconds * 1e6)}")

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            try:
                sender.sendto("\n".join(lines).encode(), self._address)
            except OSError:
                return


def _watchdog_seconds(environment: Mapping[str, str]) -> float | None:
    period = environment.get("WATCHDOG_USEC", "")
    meant_for = environment.get("WATCHDOG_PID", "")
    if not period.isdigit() or int(period) == 0 or (meant_for and meant_for != str(os.getpid())):
        return None
    return int(period) / 1e6 / 2
