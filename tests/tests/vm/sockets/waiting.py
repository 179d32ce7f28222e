"""Readiness, timeouts and signals."""

import fcntl
import os
import select
import signal
import socket
import struct
import termios
import threading
import time

from ends import LIMIT, each_waits, eventually, exact, raises, same


@each_waits
def receive_timeout_of_the_socket(sock, end, waits):
    if waits:
        name = (socket.SOL_SOCKET, socket.SO_RCVTIMEO)
        sock.setsockopt(*name, struct.pack("ll", 0, 300_000))
        begin = time.monotonic()
        raises(BlockingIOError, sock.recv, 10)
        assert time.monotonic() - begin > 0.25
        end.tell()
        sock.setsockopt(*name, struct.pack("ll", LIMIT, 0))
        assert struct.unpack("ll", sock.getsockopt(*name, 16)) == (LIMIT, 0)
        same(exact(sock, 5), b"later")
        sock.setsockopt(*name, struct.pack("ll", 0, 0))
        sock.sendall(b"!")
    else:
        end.hear()
        sock.sendall(b"later")
        same(exact(sock, 1), b"!")


def waiting_bytes(sock):
    return struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.FIONREAD, bytes(4)))[0]


@each_waits
def number_of_waiting_bytes(sock, end, waits):
    if waits:
        assert waiting_bytes(sock) == 0
        end.tell()
        eventually(lambda: waiting_bytes(sock) >= 1234)
        assert waiting_bytes(sock) == 1234, waiting_bytes(sock)
        same(exact(sock, 1000), end.theirs(1234)[:1000])
        assert waiting_bytes(sock) == 234
        same(exact(sock, 234), end.theirs(1234)[1000:])
        assert waiting_bytes(sock) == 0
        sock.sendall(b"!")
    else:
        end.hear()
        sock.sendall(end.mine(1234))
        same(exact(sock, 1), b"!")


@each_waits
def beside_a_pipe(sock, end, waits):
    """The wait for a connection and for another file ends with either."""
    if not waits:
        end.hear()
        sock.sendall(b"by socket")
        same(exact(sock, 1), b"!")
        return
    reading, writing = os.pipe()
    with select.epoll() as epoll:
        poll = select.poll()
        for poller in (poll, epoll):
            poller.register(reading, select.POLLIN)
            poller.register(sock, select.POLLIN)
        for wait in (
            lambda: dict(poll.poll(1000 * LIMIT)),
            lambda: dict(epoll.poll(LIMIT)),
            lambda: {file: 1 for file in select.select([reading, sock.fileno()], [], [], LIMIT)[0]},
        ):
            later = threading.Timer(0.1, os.write, (writing, b"x"))
            later.start()
            assert list(wait()) == [reading]
            os.read(reading, 1)
            later.join()
        end.tell()
        assert list(dict(epoll.poll(LIMIT))) == [sock.fileno()]
        assert list(dict(poll.poll(0))) == [sock.fileno()]
    same(exact(sock, 9), b"by socket")
    os.close(reading)
    os.close(writing)
    sock.sendall(b"!")


class Rang(Exception):
    pass


@each_waits
def alarm(sock, end, waits):
    """A signal's exception ends a blocking call, and a handler without one does not."""
    if not waits:
        # The handler has run during the call.
        end.hear()
        sock.sendall(b"later")
        same(exact(sock, 1), b"!")
        return

    def ring(*_):
        raise Rang

    def receive():
        # Within `raises`, as it may ring at once.
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        sock.recv(10)

    rings = []

    def count(*_):
        rings.append(1)
        if len(rings) == 3:
            end.tell()

    signal.signal(signal.SIGALRM, ring)
    raises(Rang, receive)
    signal.signal(signal.SIGALRM, count)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    same(exact(sock, 5), b"later")
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert len(rings) >= 3
    sock.sendall(b"!")
