"""Errors of channels and labs.

Errors that have a class in Python stay that class: `ConnectionRefusedError`, `TimeoutError`,
`PermissionError` and other kinds of `OSError`.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .lab import Result


class LibraryError(ImportError):
    """libhamlyn.so is missing, or has another version."""


class Closed(EOFError):
    """The peer has closed its sender, and everything that it sent has been received."""


class PeerLost(ConnectionError):
    """The peer is lost. The subclasses tell how; this class itself is for other reasons."""


class Abandoned(PeerLost, ConnectionResetError):
    """The peer dropped its end without closing it."""


class PeerDied(PeerLost, ConnectionResetError):
    """The peer's process ended."""


class HostLost(PeerLost):
    """The peer's host is dead, paused, unreachable or does not exist."""


class HostReset(PeerLost):
    """The peer's host or its card was restarted."""


class LinkLost(PeerLost):
    """This host's link is down."""


class CardReset(PeerLost, ConnectionAbortedError):
    """This host's card was reset or removed."""


class Nonsense(ConnectionError):
    """The peer stored what makes no sense, which ends the channel."""


class LabError(RuntimeError):
    """A lab did not start or end, or a command of hamlyn failed. The text is what hamlyn said."""


class LabTimeout(LabError, TimeoutError):
    """A lab or a program in it took longer than its time limit."""


class RunError(LabError):
    """A program in a machine ended with a status other than 0."""

    def __init__(self, text: str, result: Result) -> None:
        super().__init__(text)
        self.result = result


_LOSSES: dict[int, type[OSError]] = {
    errno.EHOSTDOWN: HostLost,
    errno.EHOSTUNREACH: HostLost,
    errno.ENETRESET: HostReset,
    errno.ENETDOWN: LinkLost,
    errno.ECONNABORTED: CardReset,
    errno.EBADMSG: Nonsense,
}

# The library has one number for these, and a text for each.
_RESETS: dict[str, type[OSError]] = {
    "it dropped its end without closing it": Abandoned,
    "its process ended": PeerDied,
}


def error_of(number: int, text: str) -> OSError:
    """Returns the error for an errno and the library's text."""
    if number == errno.ECONNRESET:
        kinds = (kind for end, kind in _RESETS.items() if text.endswith(end))
        return next(kinds, PeerLost)(number, text)
    return _LOSSES.get(number, OSError)(number, text)
