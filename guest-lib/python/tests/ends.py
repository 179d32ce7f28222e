"""Two processes that exchange messages, each at a card: `ends.py serve`, and then `ends.py ask`.

`ask` prints "all as expected", and the server ends. `ends.py die` kills the server, and checks how
that is reported; it is for machines, where a process is not a host. What the server does is in the
first message of each channel.
"""

import asyncio
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from time import monotonic

import hamlyn

LONG = 60.0


def serve() -> None:
    with hamlyn.Listener("python") as listener:
        print("listening", flush=True)
        while True:
            channel = listener.accept()
            role = channel.recv(LONG)
            if role == b"echo":
                with channel:
                    for message in channel:
                        channel.send(message, LONG)
            elif role == b"abandon":
                channel.send(b"last", LONG)
                channel.abandon()
            elif role == b"hold":
                held = channel
            elif role == b"release":
                with held, channel:
                    channel.send(str(sum(1 for _ in held)).encode())
            elif role == b"asyncio":
                asyncio.run(echo_async(channel))
            elif role == b"die":
                os.kill(os.getpid(), signal.SIGKILL)
            elif role == b"end":
                channel.close()
                return


async def echo_async(channel: hamlyn.Channel) -> None:
    try:
        while True:
            await channel.send_async(await channel.recv_async())
    except hamlyn.Closed:
        channel.close()


def connect(role: bytes) -> hamlyn.Channel:
    deadline = monotonic() + LONG
    while True:
        try:
            channel = hamlyn.Channel.connect("python", timeout=LONG)
        except ConnectionRefusedError:
            # A host that is busy for 2 s is not found.
            assert monotonic() < deadline
        else:
            channel.send(role)
            return channel


def raised(kind: type[BaseException], act: Callable[[], object]) -> None:
    """Fails unless the call raises exactly this."""
    try:
        found = act()
    except BaseException as error:
        assert type(error) is kind, f"{error!r} is not {kind.__name__}"
        return
    raise AssertionError(f"{found!r} is not {kind.__name__}")


def messages() -> None:
    with connect(b"echo") as channel:
        assert channel.carrier in ("express", "hamlyn", "shrimp", "clan", "dart", "echo"), channel.carrier
        for message in (b"", b"a\0b", bytes(channel.longest), bytearray(b"array"), memoryview(b"view")):
            channel.send(message)
            assert channel.recv(LONG) == bytes(message), message
        assert channel.try_recv() is None
        raised(TimeoutError, lambda: channel.recv(0.15))
        raised(TimeoutError, lambda: channel.recv(0))
        raised(OSError, lambda: channel.send(bytes(channel.longest + 1)))
        channel.flush(LONG)
        channel.end()
        raised(ValueError, lambda: channel.send(b"late"))
        raised(hamlyn.Closed, lambda: channel.recv(LONG))
    raised(ValueError, channel.try_recv)


def full_ring() -> None:
    """A peer that takes nothing: its ring gets full, and a send gives up. Nothing is lost."""
    channel, message, sent = connect(b"hold"), bytes(8000), 0
    try:
        while True:
            channel.send(message, 0.2)
            sent += 1
    except TimeoutError:
        assert sent > 0 and not channel.try_send(message)
        assert channel.bytes_behind() >= sent * len(message)
    channel.end()
    with connect(b"release") as other:
        assert other.recv(LONG) == str(sent).encode()
    channel.close()


def polled() -> None:
    with connect(b"echo") as channel:
        channel.send(b"question")
        while (answer := channel.try_recv()) is None:
            if not channel.arm():
                select.select([channel], [], [], LONG)
        assert answer == b"question"


def interrupted() -> None:
    """Ctrl-C ends a wait, and the channel stays usable; so does `close` in another thread."""
    with connect(b"echo") as channel:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        raised(KeyboardInterrupt, channel.recv)
        channel.send(b"still")
        assert channel.recv(LONG) == b"still"
    channel = connect(b"hold")
    threading.Timer(0.3, channel.close).start()
    raised(ValueError, channel.recv)


def ends() -> None:
    channel = connect(b"abandon")
    assert channel.recv(LONG) == b"last"
    raised(hamlyn.Abandoned, lambda: channel.recv(LONG))
    channel.abandon()
    raised(ConnectionRefusedError, lambda: hamlyn.Channel.connect("missing", 1, timeout=LONG))
    with hamlyn.Listener("own") as own:
        raised(OSError, lambda: hamlyn.Listener("own"))
        assert own.try_accept() is None
        raised(TimeoutError, lambda: own.accept(0.15))
    hamlyn.Listener("own").close()


async def asynchronous() -> None:
    channel = connect(b"asyncio")
    for at in range(20):
        await channel.send_async(b"x" * at)
        assert await asyncio.wait_for(channel.recv_async(), LONG) == b"x" * at
    channel.close()


def ask() -> None:
    messages()
    full_ring()
    polled()
    interrupted()
    ends()
    asyncio.run(asynchronous())
    connect(b"end").close()
    print("all as expected")


def die() -> None:
    channel = connect(b"die")
    raised(hamlyn.PeerDied, lambda: channel.recv(LONG))
    print("all as expected")


if __name__ == "__main__":
    # A program that was started in the background may have been told to ignore them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    # A wait without an end ends here.
    signal.alarm(180)
    {"serve": serve, "ask": ask, "die": die}[sys.argv[1]]()
