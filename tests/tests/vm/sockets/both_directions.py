"""Sending and receiving at the same time, with each way to wait."""

import hashlib
import random
import select

from ends import LIMIT, symmetric


def in_both_directions(sock, end, wait, keeps, size=1_000_000):
    """Sends and receives at the same time, in parts of random sizes. `wait` says what is possible;
    that holds until it fails, or only for once."""
    sock.setblocking(False)
    parts = random.Random(end.is_server)
    mine, theirs = memoryview(end.mine(size)), hashlib.sha256(end.theirs(size)).digest()
    sent = got = 0
    hashed = hashlib.sha256()
    can_read = can_write = False
    while sent < size or got < size:
        if not (can_read and got < size or can_write and sent < size):
            can_read, can_write = wait(got < size, sent < size)
            assert can_read or can_write, f"nothing is possible after {sent} and {got} bytes"
        if can_read and got < size:
            try:
                part = sock.recv(parts.choice((1, 1000, 20_000, 200_000)))
                assert part, f"the end after {got} bytes"
                hashed.update(part)
                got += len(part)
                can_read = keeps
            except BlockingIOError:
                assert keeps, "nothing to read after all"
                can_read = False
        if can_write and sent < size:
            try:
                sent += sock.send(mine[sent : sent + parts.choice((1, 1000, 20_000, 200_000))])
                can_write = keeps
            except BlockingIOError:
                assert keeps, "no room after all"
                can_write = False
    assert hashed.digest() == theirs, "other bytes"


@symmetric
def by_select(sock, end):
    def wait(read, write):
        got = select.select([sock] if read else [], [sock] if write else [], [], LIMIT)
        return bool(got[0]), bool(got[1])

    in_both_directions(sock, end, wait, False)


@symmetric
def by_poll(sock, end):
    poll = select.poll()

    def wait(read, write):
        poll.register(sock, (select.POLLIN if read else 0) | (select.POLLOUT if write else 0))
        events = dict(poll.poll(1000 * LIMIT))[sock.fileno()]
        return bool(events & select.POLLIN), bool(events & select.POLLOUT)

    in_both_directions(sock, end, wait, False)


def epoll_events(epoll, sock):
    events = dict(epoll.poll(LIMIT))[sock.fileno()]
    return bool(events & select.EPOLLIN), bool(events & select.EPOLLOUT)


@symmetric
def by_epoll(sock, end):
    with select.epoll() as epoll:
        epoll.register(sock, 0)

        def wait(read, write):
            epoll.modify(sock, (select.EPOLLIN if read else 0) | (select.EPOLLOUT if write else 0))
            return epoll_events(epoll, sock)

        in_both_directions(sock, end, wait, False)


@symmetric
def by_epoll_edges(sock, end):
    with select.epoll() as epoll:
        epoll.register(sock, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
        possible = [False, False]

        def wait(read, write):
            # An edge of the one does not end what is known of the other.
            possible[:] = [False, False]
            while not (possible[0] and read or possible[1] and write):
                now = epoll_events(epoll, sock)
                possible[:] = [possible[0] or now[0], possible[1] or now[1]]
            return tuple(possible)

        in_both_directions(sock, end, wait, True)


@symmetric
def by_epoll_once(sock, end):
    with select.epoll() as epoll:
        epoll.register(sock, 0)

        def wait(read, write):
            wanted = (select.EPOLLIN if read else 0) | (select.EPOLLOUT if write else 0)
            epoll.modify(sock, wanted | select.EPOLLONESHOT)
            got = epoll_events(epoll, sock)
            assert epoll.poll(0) == [], "another event after the one"
            return got

        in_both_directions(sock, end, wait, False)
