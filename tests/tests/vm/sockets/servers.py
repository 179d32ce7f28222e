"""Servers of Python's library, and several clients."""

import asyncio
import hashlib
import socketserver
import struct
import threading
import traceback

from ends import bytes_by_tcp, case, content, exact, HOST, round_trips, ROUNDS, same, SWITCHES


def ask(sock, number, is_switched):
    """Talks with a server that answers each message with its hash."""

    def ask_once(turn):
        size = 1 + (turn * 7919 + number * 104_729) % 30_000
        data = content(False, size)
        sock.sendall(struct.pack("!I", size) + data)
        same(exact(sock, 32), hashlib.sha256(data).digest())

    if is_switched:
        round_trips(sock, ask_once)
    else:
        for turn in range(ROUNDS):
            ask_once(turn)


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        while head := self.rfile.read(4):
            data = self.rfile.read(struct.unpack("!I", head)[0])
            self.wfile.write(hashlib.sha256(data).digest())


def serve(kind, end, clients):
    server = kind(("", 0), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = end.listener
    for _ in range(clients):
        server.handle_request()
    server.server_close()


def ask_in_threads(end, clients, is_switched):
    errors = []

    def talk(number):
        try:
            with end.connection() as sock:
                ask(sock, number, is_switched)
        except BaseException:
            errors.append(traceback.format_exc())

    threads = [threading.Thread(target=talk, args=[number]) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, "\n".join(errors)


@case(least=0)
def forking_server(end):
    """Each connection is served by a process that is made after its beginning."""
    if end.is_server:
        serve(socketserver.ForkingTCPServer, end, 6)
        return
    for number in range(3):
        with end.connection() as sock:
            ask(sock, number, False)
    ask_in_threads(end, 3, False)


@case(least=8)
def threading_server(end):
    if end.is_server:
        serve(socketserver.ThreadingTCPServer, end, 8)
    else:
        ask_in_threads(end, 8, True)


@case(least=20)
def asyncio_streams(end):
    async def serve_all():
        ended = asyncio.Semaphore(0)

        async def answer(reader, writer):
            while data := await reader.read(5000):
                writer.write(data)
                await writer.drain()
            writer.close()
            await writer.wait_closed()
            ended.release()

        async with await asyncio.start_server(answer, sock=end.listener):
            for _ in range(20):
                await ended.acquire()

    async def talk(number):
        reader, writer = await asyncio.open_connection(HOST, end.port)
        sock = writer.get_extra_info("socket")
        turn, is_switched = 0, not SWITCHES
        while turn < 8 or not is_switched:
            before = bytes_by_tcp(sock)
            data = content(False, 1 + (turn * 7919 + number * 104_729) % 20_000)
            writer.write(data)
            same(await reader.readexactly(len(data)), data)
            is_switched = is_switched or bytes_by_tcp(sock) == before
            turn += 1
        writer.write_eof()
        same(await reader.read(), b"")
        writer.close()

    async def talk_all():
        async with asyncio.TaskGroup() as tasks:
            for number in range(20):
                tasks.create_task(talk(number))

    asyncio.run(serve_all() if end.is_server else talk_all())
