"""The two ends of a case, and what cases have in common."""

import json
import random
import socket
import struct
import sys
import time

HOST = socket.gethostbyname("vm1")
# Least number of round trips on a connection that is to be switched.
ROUNDS = 20
# Both ends run so that connections are switched.
SWITCHES = "switches" in sys.argv
# A case that takes longer prints where its threads are, and fails.
LIMIT = 600
# More than the buffers of a connection hold.
MOST = 64 << 20

CASES = {}


class Case:
    def __init__(self, run, least_of_server, least_of_client, most):
        self.run, self.most = run, most
        self.least = {"server": least_of_server, "client": least_of_client}


class End:
    """An end of a case: the server listens, and the client connects."""

    def __init__(self, port):
        self.is_server = port is None
        self.side = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        if self.is_server:
            self.listener = socket.socket()
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.listener.bind(("", 0))
            self.listener.listen(600)
            self.port = self.listener.getsockname()[1]
            self.side.bind(("", self.port))
            print(json.dumps({"port": self.port}), flush=True)
            self.peer = self.side.recvfrom(1)[1]
        else:
            self.port = port
            self.peer = (HOST, port)
            self.side.sendto(b"!", self.peer)

    def connection(self):
        if self.is_server:
            return self.listener.accept()[0]
        return socket.create_connection((HOST, self.port))

    def connections(self):
        """A connection on which nothing was sent, and one that has been switched."""
        for is_warm in (False, True):
            with self.connection() as sock:
                if is_warm:
                    warm_up(sock, self)
                yield sock

    def tell(self, value=0):
        """Tells the other end something beside the connection, by UDP."""
        self.side.sendto(str(value).encode(), self.peer)

    def hear(self):
        """Waits for what the other end tells."""
        self.side.settimeout(LIMIT)
        return int(self.side.recv(100))

    def mine(self, size):
        return content(self.is_server, size)

    def theirs(self, size):
        return content(not self.is_server, size)


def content(is_server, size):
    return random.Random(2 * size + is_server).randbytes(size)


def same(got, wanted):
    if got != wanted:
        at = next((at for at, (one, two) in enumerate(zip(got, wanted)) if one != two), "the end")
        raise AssertionError(f"{len(got)} bytes for {len(wanted)}, which differ at {at}")


def exact(sock, size):
    parts, got = [], 0
    while got < size:
        part = sock.recv(min(size - got, 1 << 20))
        assert part, f"the end after {got} of {size} bytes"
        parts.append(part)
        got += len(part)
    return b"".join(parts)


def to_end(sock):
    return b"".join(iter(lambda: sock.recv(1 << 16), b""))


def bytes_by_tcp(sock):
    """Returns how many bytes the kernel has received and sent. These stay the same once a
    connection has been switched."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return struct.unpack_from("Q", info, 128) + struct.unpack_from("Q", info, 200)


def round_trips(sock, turn, least=ROUNDS, must=True):
    """Calls `turn` with its number, until the connection has been switched if it must be: the
    channel is opened beside these calls. Returns whether it has been switched."""
    until = time.monotonic() + LIMIT / 2
    number, is_switched = 0, not SWITCHES
    while number < least or must and not is_switched:
        before = bytes_by_tcp(sock)
        turn(number)
        number += 1
        is_switched = is_switched or bytes_by_tcp(sock) == before
        if number > ROUNDS:
            time.sleep(0.01)
        assert time.monotonic() < until, f"it is not switched after {number} round trips"
    return is_switched


def warm_up(sock, end, least=ROUNDS, must=True):
    """Makes round trips, and one more, until the connection has been switched if it must be. Returns
    to the client whether it has been."""

    def answer():
        text = exact(sock, 11)
        sock.sendall(text)
        return text

    def turn(number, word=b"turn"):
        text = b"%s %06d" % (word, number)
        sock.sendall(text)
        same(exact(sock, len(text)), text)

    if end.is_server:
        while answer().startswith(b"turn"):
            pass
        return None
    is_switched = round_trips(sock, turn, least, must)
    turn(0, b"last")
    return is_switched


def raises(wanted, function, *arguments):
    try:
        got = function(*arguments)
    except wanted:
        return
    raise AssertionError(f"{wanted}: it returned {got!r:.100}")


def eventually(holds):
    until = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < until, "that has not come"
        time.sleep(0.01)


def case(least=0, least_of_client=None, most=None):
    """Adds a function that both ends run. At each end at least `least` connections must be
    switched, and at most `most`."""

    def add(function):
        of_client = least if least_of_client is None else least_of_client
        CASES[function.__name__] = Case(function, least, of_client, most)
        return function

    return add


def symmetric(function):
    """Adds a function that both ends run with a connection on which nothing was sent, and again
    with one that has been switched."""

    def both(end):
        for sock in end.connections():
            function(sock, end)
            sock.settimeout(None)
            sock.shutdown(socket.SHUT_WR)
            same(to_end(sock), b"")

    CASES[function.__name__] = Case(both, 1, 1, None)
    return function


def each_waits(function):
    """Lets first one end, then the other be that which waits."""

    def both(sock, end):
        for server_waits in (True, False):
            function(sock, end, end.is_server == server_waits)

    both.__name__ = function.__name__
    return symmetric(both)
