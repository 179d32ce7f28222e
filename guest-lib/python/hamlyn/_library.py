"""libhamlyn.so, by ctypes. Its calls release the interpreter's lock."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from functools import cache
from typing import Any

from .errors import LibraryError, error_of

VERSION = (0, 9)
"""Major and minor number that the library must have."""

_NAME = "libhamlyn.so.1"


class COptions(ctypes.Structure):
    """struct uln_options"""

    _fields_ = [
        ("capacity", c_uint64),
        ("polling_us", c_uint32),
        ("flags", c_uint32),
        ("reserved", c_uint32 * 4),
    ]


class Message(ctypes.Structure):
    """struct uln_message"""

    _fields_ = [("data", c_void_p), ("length", c_size_t), ("reserved", c_uint32 * 4)]


_PLACE = POINTER(c_void_p)
_OPTIONS = POINTER(COptions)

_CALLS: dict[str, list[Any]] = {
    "uln_card_open": [c_char_p, _PLACE],
    "uln_card_host": [c_void_p],
    "uln_listen": [c_void_p, c_char_p, _OPTIONS, _PLACE],
    "uln_listener_fd": [c_void_p],
    "uln_accept": [c_void_p, _PLACE, _PLACE, c_int],
    "uln_connect": [c_void_p, c_uint32, c_char_p, _OPTIONS, _PLACE, _PLACE, c_int],
    "uln_connect_any": [c_void_p, c_char_p, _OPTIONS, _PLACE, _PLACE, c_int],
    "uln_is_express": [c_void_p],
    "uln_longest": [c_void_p],
    "uln_send": [c_void_p, c_char_p, c_size_t, c_int],
    "uln_sent": [c_void_p, POINTER(c_uint64)],
    "uln_delivered": [c_void_p, c_uint64, c_int],
    "uln_bytes_behind": [c_void_p, POINTER(c_uint64)],
    "uln_close": [c_void_p, c_int],
    "uln_sender_fd": [c_void_p],
    "uln_sender_arm": [c_void_p, c_size_t],
    "uln_recv": [c_void_p, POINTER(Message), c_int],
    "uln_release": [c_void_p],
    "uln_receiver_fd": [c_void_p],
    "uln_receiver_arm": [c_void_p],
}

_ENDS = ["uln_card_close", "uln_listener_destroy", "uln_sender_destroy", "uln_receiver_destroy"]


@cache
def library() -> Any:
    """Loads the library that HAMLYN_LIBRARY names, or else the loader finds."""
    name = os.environ.get("HAMLYN_LIBRARY") or _NAME
    try:
        loaded = ctypes.CDLL(name)
    except OSError as error:
        advice = "set HAMLYN_LIBRARY to the path of libhamlyn.so, which scripts/install makes"
        raise LibraryError(f"cannot load {name}: {error}: {advice}") from None
    wanted = ".".join(map(str, VERSION))
    try:
        loaded.uln_version.restype = c_uint32
        version = loaded.uln_version()
        for call, arguments in _CALLS.items():
            getattr(loaded, call).argtypes = arguments
    except AttributeError as error:
        raise LibraryError(f"{name} is not libhamlyn.so of version {wanted}: {error}") from None
    parts = (version >> 16, version >> 8 & 0xFF, version & 0xFF)
    if parts[:2] != VERSION:
        found = ".".join(map(str, parts))
        raise LibraryError(f"{name} has version {found}, and this package needs {wanted}")
    for call in _ENDS:
        getattr(loaded, call).argtypes, getattr(loaded, call).restype = [c_void_p], None
    loaded.uln_error.restype = c_char_p
    loaded.uln_card_model.argtypes, loaded.uln_card_model.restype = [c_void_p], c_char_p
    return loaded


def check(outcome: int) -> int:
    """Returns the value of a call. Raises the error of a failed one, in the thread of the call."""
    if outcome >= 0:
        return outcome
    raise error_of(-outcome, library().uln_error().decode(errors="replace"))
