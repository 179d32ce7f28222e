"""Sending and receiving."""

import hashlib
import os
import random
import select
import socket
import tempfile
import threading
import time

from ends import case, content, each_waits, eventually, exact, LIMIT, MOST, raises, same, symmetric, to_end


@symmetric
def blocking(sock, end):
    for size in (1, 2, 100, 5000, 65_536, 400_000):
        if end.is_server:
            same(exact(sock, size), end.theirs(size))
            sock.sendall(end.mine(size))
        else:
            sock.sendall(end.mine(size))
            same(exact(sock, size), end.theirs(size))


def fill(send):
    """Sends until an exception, and returns how many bytes were taken."""
    block, sent = content(True, 1 << 20), 0
    while sent < MOST:
        at = sent % len(block)
        try:
            sent += send(memoryview(block)[at : at + 50_000])
        except (TimeoutError, BlockingIOError):
            return sent
    raise AssertionError("the buffers hold more than they should")


def drained(sock, size):
    block = content(True, 1 << 20)
    for at in range(0, size, len(block)):
        part = min(len(block), size - at)
        same(exact(sock, part), block[:part])


@each_waits
def timeouts(sock, end, waits):
    if waits:
        sock.settimeout(0.3)
        begin = time.monotonic()
        raises(TimeoutError, sock.recv, 10)
        assert time.monotonic() - begin > 0.25
        end.tell()
        sock.settimeout(LIMIT)
        same(exact(sock, 5), b"later")
        sock.settimeout(0.5)
        end.tell(fill(sock.send))
        sock.settimeout(LIMIT)
        same(exact(sock, 4), b"done")
        sock.settimeout(None)
    else:
        end.hear()
        sock.sendall(b"later")
        drained(sock, end.hear())
        sock.sendall(b"done")


@each_waits
def non_blocking(sock, end, waits):
    if waits:
        raises(BlockingIOError, sock.recv, 10, socket.MSG_DONTWAIT)
        sock.setblocking(False)
        raises(BlockingIOError, sock.recv, 10)
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        assert poll.poll(0) == []
        end.tell()
        assert poll.poll(30_000) == [(sock.fileno(), select.POLLIN)]
        sock.setblocking(True)
        same(exact(sock, 5), b"later")
        sock.setblocking(False)
        poll.modify(sock, select.POLLOUT)
        block, sent = content(True, 1 << 20), 0
        while poll.poll(700):
            try:
                at = sent % len(block)
                sent += sock.send(memoryview(block)[at : at + 50_000])
            except BlockingIOError:
                pass
            assert sent < MOST
        end.tell(sent)
        assert poll.poll(30_000) == [(sock.fileno(), select.POLLOUT)]
        sock.setblocking(True)
        same(exact(sock, 4), b"done")
    else:
        end.hear()
        sock.sendall(b"later")
        drained(sock, end.hear())
        sock.sendall(b"done")


@symmetric
def by_threads(sock, end):
    size = 3_000_000
    mine = end.mine(size)

    def send():
        parts, at = random.Random(end.is_server), 0
        while at < size:
            part = parts.choice((1, 100, 10_000, 200_000))
            sock.sendall(memoryview(mine)[at : at + part])
            at += part

    sender = threading.Thread(target=send)
    sender.start()
    parts, got, hashed = random.Random(2), 0, hashlib.sha256()
    while got < size:
        part = sock.recv(min(size - got, parts.choice((1, 100, 10_000, 200_000))))
        assert part, f"the end after {got} bytes"
        hashed.update(part)
        got += len(part)
    sender.join()
    sock.sendall(hashed.digest())
    same(exact(sock, 32), hashlib.sha256(mine).digest())


@symmetric
def threads_share_a_connection(sock, end):
    def send(number):
        for turn in range(50):
            sock.sendall(b"%d %04d " % (number, turn) + b"x" * 93)

    threads = [threading.Thread(target=send, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    got = exact(sock, 4 * 50 * 100)
    for thread in threads:
        thread.join()
    records = [got[at : at + 100] for at in range(0, len(got), 100)]
    for number in range(4):
        turns = [record[2:6] for record in records if record[0] == ord("0") + number]
        assert turns == [b"%04d" % turn for turn in range(50)], turns


@symmetric
def makefile(sock, end):
    lines = [f"line {at} {'x' * (at * 7 % 300)}\n" for at in range(200)]
    with sock.makefile("rw", newline="\n") as text:
        if not end.is_server:
            text.writelines(lines)
            text.flush()
        assert [text.readline() for _ in lines] == lines
        if end.is_server:
            text.writelines(lines)
            text.flush()
    # The server's next bytes come after the client's file has ended, which reads ahead.
    if end.is_server:
        end.hear()
    else:
        end.tell()
    with sock.makefile("rwb", buffering=0) as raw:
        raw.write(end.mine(100))
        same(raw.read(1), end.theirs(100)[:1])
    same(exact(sock, 99), end.theirs(100)[1:])


@symmetric
def several_buffers(sock, end):
    sizes = (10, 0, 70_000, 1, 30_000)
    size = sum(sizes)
    mine, theirs = end.mine(size), end.theirs(size)

    def send():
        sent = 0
        while sent < size:
            buffers, begin = [], 0
            for part in sizes:
                buffers.append(mine[max(begin, sent) : max(begin + part, sent)])
                begin += part
            sent += sock.sendmsg(buffers)

    def take():
        buffers = [bytearray(part) for part in sizes]
        got = 0
        while got < size:
            rest, begin = [], 0
            for buffer in buffers:
                rest.append(memoryview(buffer)[min(len(buffer), max(0, got - begin)) :])
                begin += len(buffer)
            count, ancillary, flags, _ = sock.recvmsg_into(rest)
            assert count > 0 and ancillary == [] and flags == 0
            got += count
        same(b"".join(buffers), theirs)

    for first in (send, take) if end.is_server else (take, send):
        first()
    sock.sendall(mine[:500])
    data, ancillary, flags, _ = sock.recvmsg(300)
    assert data and len(data) <= 300 and ancillary == [] and flags == 0
    same(data + exact(sock, 500 - len(data)), theirs[:500])


@symmetric
def as_files(sock, end):
    """read, write, readv and writev."""
    number = sock.fileno()
    sent = 0
    mine, theirs = end.mine(5000), end.theirs(5000)
    sent += os.write(number, mine[:1000])
    sent += os.writev(number, [mine[sent : sent + 500], b"", mine[sent + 500 : sent + 2000]])
    sock.sendall(mine[sent:])
    got = os.read(number, 700)
    one, two = bytearray(100), bytearray(800)
    count = os.readv(number, [one, two])
    assert got and count
    got += bytes(one + two)[:count]
    same(got + exact(sock, 5000 - len(got)), theirs)


@symmetric
def peek(sock, end):
    mine, theirs = end.mine(50_000), end.theirs(50_000)
    sock.sendall(mine)
    same(sock.recv(4, socket.MSG_PEEK), theirs[:4])
    same(sock.recv(2, socket.MSG_PEEK), theirs[:2])
    same(exact(sock, 3), theirs[:3])
    part = sock.recv(10_000, socket.MSG_PEEK)
    same(part, theirs[3 : 3 + len(part)])
    assert select.select([sock], [], [], 0)[0]
    same(exact(sock, 50_000 - 3 - 100), theirs[3:-100])
    eventually(lambda: len(sock.recv(1000, socket.MSG_PEEK)) == 100)
    same(sock.recv(1000, socket.MSG_PEEK | socket.MSG_DONTWAIT), theirs[-100:])
    same(sock.recv(1000), theirs[-100:])
    raises(BlockingIOError, sock.recv, 1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    end.tell()
    end.hear()
    sock.sendall(b"!")
    same(exact(sock, 1), b"!")


@each_waits
def wait_all(sock, end, waits):
    size = 100_000
    if waits:
        same(sock.recv(size, socket.MSG_WAITALL), end.theirs(size))
        buffer = bytearray(size)
        assert sock.recv_into(buffer, size, socket.MSG_WAITALL) == size
        same(bytes(buffer), end.theirs(size))
        sock.sendall(b"!")
    else:
        for _ in range(2):
            for at in range(0, size, size // 10):
                sock.sendall(end.mine(size)[at : at + size // 10])
                time.sleep(0.01)
        same(exact(sock, 1), b"!")


@symmetric
def duplicates(sock, end):
    mine, theirs = end.mine(100_000), end.theirs(100_000)
    with socket.socket(fileno=os.dup(sock.fileno())) as other:
        for at in range(0, 1000, 100):
            (sock, other)[at // 100 % 2].sendall(mine[at : at + 100])
        for at in range(0, 1000, 100):
            same(exact((other, sock)[at // 100 % 2], 100), theirs[at : at + 100])
    sock.sendall(mine)
    same(exact(sock, len(theirs)), theirs)


@case(least=1)
def last_close_is_the_end(end):
    for sock in end.connections():
        if end.is_server:
            number = os.dup(sock.fileno())
            sock.close()
            end.hear()
            os.write(number, b"still here")
            end.hear()
            os.close(number)
        else:
            raises(BlockingIOError, sock.recv, 1, socket.MSG_DONTWAIT)
            end.tell()
            same(exact(sock, 10), b"still here")
            raises(BlockingIOError, sock.recv, 1, socket.MSG_DONTWAIT)
            end.tell()
            same(to_end(sock), b"")


@symmetric
def files_are_sent(sock, end):
    size = 700_000
    mine, theirs = end.mine(size), end.theirs(size)

    def send():
        with tempfile.TemporaryFile() as file:
            file.write(mine)
            file.flush()
            sent = os.sendfile(sock.fileno(), file.fileno(), 0, 1000)
            assert 0 < sent <= 1000
            while sent < size // 2:
                sent += os.sendfile(sock.fileno(), file.fileno(), sent, size // 2 - sent)
            assert sock.sendfile(file, sent, size - sent) == size - sent
            # At the file's end.
            assert os.sendfile(sock.fileno(), file.fileno(), size, 1000) == 0

    def take():
        same(exact(sock, size), theirs)

    for first in (send, take) if end.is_server else (take, send):
        first()
