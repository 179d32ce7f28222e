"""Channels: whole messages in order between two processes of different hosts, by any card.

Times are in seconds; without a time, a call waits without a limit. Waiting calls let other threads
run, and Ctrl-C ends them within 0.1 s. Any number of threads may use a channel.
"""

from __future__ import annotations

import asyncio
import ctypes
import math
from collections.abc import Callable, Iterator
from ctypes import byref, c_uint64, c_void_p
from dataclasses import dataclass
from errno import EAGAIN, ETIMEDOUT
from functools import cache
from queue import SimpleQueue
from threading import Lock, Thread
from time import monotonic
from types import TracebackType
from typing import Any, Self, TypeVar

from ._library import COptions, Message, check, library
from .errors import Abandoned, Closed

T = TypeVar("T")

_SLICE = 100
"""Milliseconds after which a waiting call looks for signals."""
_LONGEST = 2**31 - 1
_NO_POLLING = 2**32 - 1
_BY_CARD = 1


@dataclass(frozen=True)
class Options:
    """Options for one end of a channel."""

    capacity: int = 0
    """Bytes of the ring in each direction, in whole pages; 0 is the library's default."""
    polling: float = 0.001
    """Seconds for which a waiting call polls memory before it sleeps."""
    by_card: bool = False
    """Uses the card even if the two hosts share express memory."""

    def _for_c(self) -> COptions:
        if not 0 <= self.capacity < 2**63:
            raise ValueError(f"capacity {self.capacity} is out of range (limit {2**63 - 1})")
        if not 0 <= self.polling <= 3600:
            raise ValueError(f"polling {self.polling} s is out of range (limit 3600)")
        # 0 would be the library's default.
        polling = math.ceil(self.polling * 1e6) or _NO_POLLING
        return COptions(self.capacity, polling, _BY_CARD if self.by_card else 0)


DEFAULT = Options()


class _Handle:
    """An object of the library. One thread at a time has it, between `__enter__` and `__exit__`."""

    def __init__(self, what: str, handle: c_void_p, destroy: Callable[[c_void_p], None]) -> None:
        self._what, self._handle, self._destroy = what, handle, destroy
        self._lock = Lock()
        self._is_open = True

    def __enter__(self) -> c_void_p:
        self._lock.acquire()
        if not self._is_open:
            self._lock.release()
            raise ValueError(f"the {self._what} is closed")
        return self._handle

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def take(self) -> c_void_p | None:
        """Returns the object to the first caller, which must destroy it."""
        # A thread that waits sees this before its next slice.
        self._is_open = False
        with self._lock:
            handle, self._handle = self._handle, c_void_p()
        return handle if handle else None

    def destroy(self) -> None:
        if handle := self.take():
            self._destroy(handle)

    __del__ = destroy


def _waited(attempt: Callable[[int], T | None], timeout: float | None, what: str) -> T:
    """Repeats an attempt of some milliseconds until it has a result."""
    deadline = math.inf if timeout is None else monotonic() + timeout
    while True:
        left = deadline - monotonic()
        result = attempt(_SLICE if left * 1000 >= _SLICE else max(0, math.ceil(left * 1000)))
        if result is not None:
            return result
        if monotonic() >= deadline:
            raise TimeoutError(ETIMEDOUT, f"{what} takes longer than {timeout} s (timeout)")


def _or_later(outcome: int) -> int | None:
    return None if outcome in (-EAGAIN, -ETIMEDOUT) else check(outcome)


def _milliseconds(timeout: float | None) -> int:
    return -1 if timeout is None else min(_LONGEST, max(0, math.ceil(timeout * 1000)))


def _in_thread(act: Callable[[], T]) -> T:
    """Runs a call that cannot be repeated. A signal leaves it to its thread."""
    results: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def work() -> None:
        try:
            results.put((act(), None))
        except BaseException as error:
            results.put((None, error))

    Thread(target=work, daemon=True).start()
    result, error = results.get()
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


async def _ready(attempt: Callable[[], T | None], arm: Callable[[], bool], file: int) -> T:
    loop = asyncio.get_running_loop()
    while (result := attempt()) is None:
        if arm():
            continue
        ready = asyncio.Event()
        loop.add_reader(file, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(file)
    return result


class _Closing:
    """Closes at the end of a `with` statement."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Opened:
    """The library's card. It is closed with its last reference, since any thread may use it."""

    def __init__(self, node: str | None) -> None:
        self.card = c_void_p()
        # Kept, because modules may be gone at the end of the interpreter.
        self._close = library().uln_card_close
        check(library().uln_card_open(None if node is None else _text(node), byref(self.card)))

    def __del__(self) -> None:
        if self.card:
            self._close(self.card)


class Card(_Closing):
    """An open card. Its channels and listeners stay usable after it is closed."""

    def __init__(self, node: str | None = None) -> None:
        """Opens a node such as "/dev/dart0". The default is the card that HAMLYN_CARD,
        SHRIMP_CARD, CLAN_CARD, DART_CARD or ECHO_CARD names, else the first one in /dev."""
        self._opened: _Opened | None = _Opened(node)
        #: The model: "hamlyn", "shrimp", "clan", "dart" or "echo".
        self.model: str = library().uln_card_model(self._opened.card).decode()

    def _use(self) -> _Opened:
        if self._opened is None:
            raise ValueError("the card is closed")
        return self._opened

    @property
    def host(self) -> int:
        """The card's host id. Raises LinkLost while its link is down."""
        opened = self._use()
        return check(library().uln_card_host(opened.card))

    def close(self) -> None:
        """Closes the card, once calls of other threads that use it have ended."""
        self._opened = None


@cache
def _own_card() -> Card:
    """The card of calls that name none. A card's socket takes one process, once."""
    return Card()


def _text(text: str) -> bytes:
    if "\0" in text:
        raise ValueError(f"{text!r} has a null character")
    return text.encode()


class Listener(_Closing):
    """A name of 1 to 64 bytes, by which processes of all hosts open channels to this one."""

    def __init__(self, name: str, *, card: Card | None = None, options: Options = DEFAULT) -> None:
        self._own = card or _own_card()
        opened, handle = self._own._use(), c_void_p()
        check(library().uln_listen(opened.card, _text(name), byref(options._for_c()), byref(handle)))
        self._listener = _Handle("listener", handle, library().uln_listener_destroy)

    def _accept(self, milliseconds: int) -> Channel | None:
        ends = c_void_p(), c_void_p()
        with self._listener as listener:
            outcome = library().uln_accept(listener, byref(ends[0]), byref(ends[1]), milliseconds)
            return None if _or_later(outcome) is None else Channel(*ends, self._own.model)

    def accept(self, timeout: float | None = None) -> Channel:
        """Opens a channel to the next peer that asks."""
        return _waited(self._accept, timeout, "the next peer")

    def try_accept(self) -> Channel | None:
        """Returns None if no peer has asked."""
        return self._accept(0)

    async def accept_async(self) -> Channel:
        """The same as accept, in asyncio."""
        return await _ready(self.try_accept, lambda: False, self.fileno())

    def fileno(self) -> int:
        """Returns a file that is readable while a peer asks."""
        with self._listener as listener:
            return check(library().uln_listener_fd(listener))

    def close(self) -> None:
        """Releases the name."""
        self._listener.destroy()


class Channel(_Closing):
    """Both ends of a channel. `connect` and `Listener.accept` make it.

    At the end of a `with` statement it is closed, or abandoned if there was an exception. Iterating
    over it gives messages until the peer closes."""

    def __init__(self, sender: c_void_p, receiver: c_void_p, model: str) -> None:
        calls = library()
        self._sender = _Handle("channel", sender, calls.uln_sender_destroy)
        self._receiver = _Handle("channel", receiver, calls.uln_receiver_destroy)
        #: What carries messages: "express" for express memory, else the model of the card.
        self.carrier: str = "express" if check(calls.uln_is_express(sender)) else model
        #: Length of the longest message in bytes.
        self.longest: int = check(calls.uln_longest(sender))

    @staticmethod
    def connect(
        name: str,
        host: int | None = None,
        *,
        card: Card | None = None,
        timeout: float | None = None,
        options: Options = DEFAULT,
    ) -> Channel:
        """Opens a channel to a listener: on this host id, or on the lowest that has the name."""
        if host is not None and not 0 <= host < 2**32:
            raise ValueError(f"host {host} is out of range (limit {2**32 - 1})")
        own = card or _own_card()
        opened, calls, text, given = own._use(), library(), _text(name), options._for_c()

        def act() -> Channel:
            ends = c_void_p(), c_void_p()
            places = byref(given), byref(ends[0]), byref(ends[1]), _milliseconds(timeout)
            if host is None:
                check(calls.uln_connect_any(opened.card, text, *places))
            else:
                check(calls.uln_connect(opened.card, host, text, *places))
            return Channel(*ends, own.model)

        return _in_thread(act)

    def _send(self, data: bytes, milliseconds: int) -> int | None:
        with self._sender as sender:
            return _or_later(library().uln_send(sender, data, len(data), milliseconds))

    def send(self, data: bytes | bytearray | memoryview, timeout: float | None = None) -> None:
        """Sends a message of 0 to `longest` bytes. Waits while the peer's ring is full."""
        whole = bytes(data)
        _waited(lambda milliseconds: self._send(whole, milliseconds), timeout, "room to send")

    def try_send(self, data: bytes | bytearray | memoryview) -> bool:
        """Returns False, and sends nothing, if there is no room now."""
        return self._send(bytes(data), 0) is not None

    async def send_async(self, data: bytes | bytearray | memoryview) -> None:
        """The same as send, in asyncio."""
        whole = bytes(data)
        await _ready(lambda: self._send(whole, 0), lambda: self.arm_send(len(whole)), self.send_fileno())

    def _recv(self, milliseconds: int) -> bytes | None:
        message = Message()
        with self._receiver as receiver:
            came = _or_later(library().uln_recv(receiver, byref(message), milliseconds))
            if came is None:
                return None
            if came == 0:
                raise Closed("the peer has closed the channel")
            data = ctypes.string_at(message.data, message.length)
            check(library().uln_release(receiver))
            return data

    def recv(self, timeout: float | None = None) -> bytes:
        """Returns the next message. Raises Closed once the peer has closed its sender."""
        return _waited(self._recv, timeout, "the next message")

    def try_recv(self) -> bytes | None:
        """Returns None if no message has come."""
        return self._recv(0)

    async def recv_async(self) -> bytes:
        """The same as recv, in asyncio."""
        return await _ready(self.try_recv, self.arm, self.fileno())

    def __iter__(self) -> Iterator[bytes]:
        while True:
            try:
                message = self.recv()
            except Closed:
                return
            yield message

    def fileno(self) -> int:
        """Returns a file for poll and the like: readable once `try_recv` has something to report,
        if `arm` returned False since. It may be readable without a reason."""
        with self._receiver as receiver:
            return check(library().uln_receiver_fd(receiver))

    def arm(self) -> bool:
        """Call it before each wait for the file. True: there is something now, do not wait."""
        with self._receiver as receiver:
            return bool(check(library().uln_receiver_arm(receiver)))

    def send_fileno(self) -> int:
        """Returns a file that is readable (not writable) once there is room, as `fileno`."""
        with self._sender as sender:
            return check(library().uln_sender_fd(sender))

    def arm_send(self, length: int) -> bool:
        """The same as `arm`, for room for a message of this many bytes."""
        with self._sender as sender:
            return bool(check(library().uln_sender_arm(sender, length)))

    def bytes_behind(self) -> int:
        """Returns the bytes that were sent and are not known to be received, and 8 for each
        message."""
        return self._number(library().uln_bytes_behind)

    def _number(self, call: Any) -> int:
        found = c_uint64()
        with self._sender as sender:
            check(call(sender, byref(found)))
        return found.value

    def flush(self, timeout: float | None = None) -> None:
        """Waits until all that was sent is certain to arrive, even if this process ends."""
        position = self._number(library().uln_sent)

        def attempt(milliseconds: int) -> int | None:
            with self._sender as sender:
                return _or_later(library().uln_delivered(sender, position, milliseconds))

        _waited(attempt, timeout, "delivery")

    def end(self, timeout: float | None = 10.0) -> None:
        """Closes this direction: the peer receives everything, and then the end. Messages still
        come from the peer. Does nothing if it is closed already."""
        if not self._sender._is_open:
            return
        start = monotonic()
        self.flush(timeout)
        if sender := self._sender.take():
            # Everything before has been delivered, so this is short.
            left = 1.0 if timeout is None else max(1.0, timeout - (monotonic() - start))
            check(library().uln_close(sender, _milliseconds(min(left, 10.0))))

    def close(self, timeout: float | None = 10.0) -> None:
        """Closes both directions. The channel is gone even if this fails. It raises Abandoned if
        the peer has left without taking everything, unless that has closed the channel as well."""
        try:
            self.end(timeout)
        except Abandoned:
            if not self._is_closed_by_peer():
                raise
        finally:
            self.abandon()

    def _is_closed_by_peer(self) -> bool:
        try:
            while self.try_recv() is not None:
                pass
        except Closed:
            return True
        except OSError:
            pass
        return False

    def abandon(self) -> None:
        """Drops both ends: the peer receives what was sent, and then Abandoned."""
        self._sender.destroy()
        self._receiver.destroy()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()
