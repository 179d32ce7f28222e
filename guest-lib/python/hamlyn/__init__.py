"""Channels between processes of different machines, and labs of virtual machines.

`Channel`, `Listener` and `Card` need libhamlyn.so, `Lab` needs the program hamlyn. Neither is
loaded or looked for before it is used.
"""

from .channel import Card, Channel, Listener, Options
from .errors import (
    Abandoned,
    CardReset,
    Closed,
    HostLost,
    HostReset,
    LabError,
    LabTimeout,
    LibraryError,
    LinkLost,
    Nonsense,
    PeerDied,
    PeerLost,
    RunError,
)
from .lab import Lab, Program, Report, Result

__all__ = [
    "Abandoned",
    "Card",
    "CardReset",
    "Channel",
    "Closed",
    "HostLost",
    "HostReset",
    "Lab",
    "LabError",
    "LabTimeout",
    "LibraryError",
    "LinkLost",
    "Listener",
    "Nonsense",
    "Options",
    "PeerDied",
    "PeerLost",
    "Program",
    "Report",
    "Result",
    "RunError",
]
