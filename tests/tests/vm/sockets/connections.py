"""Beginnings and ends of connections, and what is known of them."""

import errno
import fcntl
import json
import os
import select
import selectors
import signal
import socket
import stat
import subprocess
import threading
import time

from ends import (
    bytes_by_tcp,
    case,
    exact,
    HOST,
    LIMIT,
    raises,
    same,
    SWITCHES,
    to_end,
    warm_up,
)


@case(least=2)
def half_close(end):
    for server_closes in (True, False):
        for sock in end.connections():
            if end.is_server == server_closes:
                sock.sendall(end.mine(300_000))
                sock.shutdown(socket.SHUT_WR)
                raises(BrokenPipeError, sock.send, b"x")
                same(to_end(sock), end.theirs(200_000))
            else:
                same(to_end(sock), end.theirs(300_000))
                poll = select.poll()
                poll.register(sock, select.POLLIN | select.POLLRDHUP | select.POLLOUT)
                events = poll.poll(0)[0][1]
                assert events == select.POLLIN | select.POLLRDHUP | select.POLLOUT, events
                same(sock.recv(1), b"")
                sock.sendall(end.mine(200_000))


@case(least=1)
def shutdown_wakes_a_receiver(end):
    for sock in end.connections():
        if end.is_server:
            got = []
            thread = threading.Thread(target=lambda: got.append(sock.recv(10)))
            thread.start()
            time.sleep(0.3)
            assert thread.is_alive()
            sock.shutdown(socket.SHUT_RDWR)
            thread.join()
            assert got == [b""], got
        else:
            same(to_end(sock), b"")


@case(least=1)
def close_with_unread_bytes(end):
    for sock in end.connections():
        if end.is_server:
            end.hear()
            assert select.select([sock], [], [], LIMIT)[0]
            sock.close()
            end.tell()
        else:
            sock.sendall(end.mine(50_000))
            end.tell()
            end.hear()
            try:
                same(sock.recv(1), b"")
            except ConnectionResetError:
                pass
            until = time.monotonic() + LIMIT
            try:
                while time.monotonic() < until:
                    sock.send(b"x")
                    time.sleep(0.05)
                raise AssertionError("bytes are taken for a process that has closed")
            except (BrokenPipeError, ConnectionResetError):
                pass


@case(least=2, least_of_client=0)
def exit_without_close(end):
    """What a process has sent arrives, however the process ends."""
    for is_killed in (False, True):
        for is_warm in (False, True):
            if end.is_server:
                sock = end.connection()
                if is_warm:
                    warm_up(sock, end)
                try:
                    got = to_end(sock)
                except ConnectionResetError:
                    assert is_killed
                    continue
                wanted = end.theirs(300_000)
                same(got, wanted[: len(got)] if is_killed else wanted)
                sock.close()
                continue
            child = os.fork()
            if child == 0:
                sock = end.connection()
                if is_warm:
                    warm_up(sock, end)
                sock.sendall(end.mine(300_000))
                if is_killed:
                    os.kill(os.getpid(), signal.SIGKILL)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == (signal.SIGKILL if is_killed else 0)


@case(least=0, least_of_client=1)
def end_of_the_peer_wakes(end):
    """A process that is killed ends its peer's blocking call."""
    for is_warm in (False, True):
        if end.is_server:
            child = os.fork()
            if child == 0:
                sock = end.connection()
                if is_warm:
                    warm_up(sock, end)
                time.sleep(LIMIT)
                os._exit(0)
            end.hear()
            time.sleep(0.3)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        else:
            with end.connection() as sock:
                if is_warm:
                    warm_up(sock, end)
                end.tell()
                try:
                    same(sock.recv(1), b"")
                except ConnectionResetError:
                    pass


@case(least=2)
def names_and_options(end):
    """Addresses, kinds and options stay what they were."""

    def state(sock):
        assert stat.S_ISSOCK(os.fstat(sock.fileno()).st_mode)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 0
        flags = fcntl.fcntl(sock, fcntl.F_GETFL), fcntl.fcntl(sock, fcntl.F_GETFD)
        options = [
            sock.getsockopt(level, name)
            for level, name in (
                (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                (socket.SOL_SOCKET, socket.SO_DOMAIN),
                (socket.SOL_SOCKET, socket.SO_PROTOCOL),
                (socket.IPPROTO_TCP, socket.TCP_NODELAY),
                (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
            )
        ]
        return sock.getsockname(), sock.getpeername(), flags, options

    for sock in end.connections():
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        before = state(sock)
        warm_up(sock, end)
        assert state(sock) == before, (state(sock), before)
        assert before[3] == [1, socket.AF_INET, socket.IPPROTO_TCP, 1, 7200], before
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0
        mine, theirs = (json.dumps(name).ljust(50).encode() for name in before[:2])
        sock.sendall(mine)
        same(exact(sock, 50), theirs)


@case(least=1)
def connect_without_blocking(end):
    if end.is_server:
        with end.connection() as sock:
            warm_up(sock, end)
        end.listener.close()
        end.tell()
        return
    with socket.socket() as sock:
        sock.setblocking(False)
        raises(BlockingIOError, sock.connect, (HOST, end.port))
        poll = select.poll()
        poll.register(sock, select.POLLOUT)
        assert poll.poll(1000 * LIMIT) == [(sock.fileno(), select.POLLOUT)]
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
        assert sock.connect_ex((HOST, end.port)) in (0, errno.EISCONN)
        sock.setblocking(True)
        warm_up(sock, end)
        same(to_end(sock), b"")
    end.hear()
    raises(ConnectionRefusedError, socket.create_connection, (HOST, end.port))


@case(least=250)
def connections_one_after_another(end):
    switched = 0
    for number in range(500):
        with end.connection() as sock:
            # Up to half of them may end before they have been switched.
            switched += bool(warm_up(sock, end, 3, must=2 * switched < number))
            if end.is_server:
                same(to_end(sock), b"")


def serve_by_selector(listener, clients):
    """Returns what clients send, until all have ended."""
    with selectors.DefaultSelector() as selector:
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ)
        while clients:
            for key, _ in selector.select():
                if key.fileobj is listener:
                    sock = listener.accept()[0]
                    selector.register(sock, selectors.EVENT_READ)
                    continue
                data = key.fileobj.recv(10_000)
                if data:
                    key.fileobj.sendall(data)
                else:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
                    clients -= 1


@case(least=100)
def connections_at_once(end):
    if end.is_server:
        serve_by_selector(end.listener, 100)
        return
    socks = [end.connection() for _ in range(100)]
    turn, left = 0, set(socks) if SWITCHES else set()
    while turn < 8 or left:
        before = {sock: bytes_by_tcp(sock) for sock in left}
        for at, sock in enumerate(socks):
            sock.sendall(b"%03d%05d" % (at, turn))
        for at, sock in enumerate(socks):
            same(exact(sock, 8), b"%03d%05d" % (at, turn))
        left = {sock for sock in left if bytes_by_tcp(sock) != before[sock]}
        turn += 1
    for sock in socks:
        sock.close()



@case(least=0, most=0)
def inherited_by_another_program(end):
    """A program that is started with a connection before its first bytes serves it by TCP."""
    for server_starts in (True, False):
        with end.connection() as sock:
            if end.is_server == server_starts:
                program = subprocess.Popen(["cat"], stdin=sock, stdout=sock)
                sock.close()
                assert program.wait() == 0
                continue
            for size in (1, 10, 100, 10_000, 100):
                sock.sendall(end.mine(size))
                same(exact(sock, size), end.mine(size))
            sock.shutdown(socket.SHUT_WR)
            same(to_end(sock), b"")


@case(least=0, most=0)
def within_a_machine(end):
    """Connections within a machine are not of the fabric."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        two = listener.accept()[0]
    with one, two:
        for size in (1, 100, 1000, 10, 10):
            one.sendall(end.mine(size))
            same(exact(two, size), end.mine(size))
            two.sendall(end.theirs(size))
            same(exact(one, size), end.theirs(size))
