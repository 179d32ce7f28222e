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

from ends import each_waits, eventually, exact, raises, same


@each_waits
def receive_timeout_of_the_socket(sock, end, waits):
    if waits:
        name = (socket.SOL_SOCKET, socket.SO_RCVTIMEO)
        sock.setsockopt(*name, struct.pack("ll", 0, 300_000))
        begin = time.monotonic()
        raises(BlockingIOError, sock.recv, 10)
        assert time.monotonic() - begin > 0.25
        end.tell()
        sock.setsockopt(*name, struct.pack("ll", 30, 0))
        assert struct.unpack("ll", sock.getsockopt(*name, 16)) == (30, 0)
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
            lambda: dict(poll.poll(30_000)),
            lambda: dict(epoll.poll(30)),
            lambda: {file: 1 for file in select.select([reading, sock.fileno()], [], [], 30)[0]},
        ):
            later = threading.Timer(0.1, os.write, (writing, b"x"))
            later.start()
            assert list(wait()) == [reading]
            os.read(reading, 1)
            later.join()
        end.tell()
        assert list(dict(epoll.poll(30))) == [sock.fileno()]
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
        end.hear()
        time.sleep(0.5)
        sock.sendall(b"later")
        same(exact(sock, 1), b"!")
        return

    def ring(*_):
        raise Rang

    rings = []
    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    raises(Rang, sock.recv, 10)
    signal.signal(signal.SIGALRM, lambda *_: rings.append(1))
    end.tell()
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    same(exact(sock, 5), b"later")
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert rings
    sock.sendall(b"!")
