"""A client of memcached: several threads with values of many sizes, then 200 connections."""

import random
import socket
import threading

ADDRESS = ("vm1", 11211)
SIZES = (0, 1, 100, 4096, 60_000, 900_000)


class Client:
    def __init__(self):
        self.socket = socket.create_connection(ADDRESS)
        self.file = self.socket.makefile("rb")

    def ask(self, text):
        self.socket.sendall(text)
        return self.file.readline()

    def set(self, key, value):
        assert self.ask(b"set %s 5 0 %d\r\n%s\r\n" % (key, len(value), value)) == b"STORED\r\n"

    def get(self, *keys):
        """Returns the values of keys that are there."""
        line, values = self.ask(b"get %s\r\n" % b" ".join(keys)), {}
        while line != b"END\r\n":
            word, key, flags, size = line.split()
            assert (word, flags) == (b"VALUE", b"5"), line
            values[key] = self.file.read(int(size))
            assert self.file.readline() == b"\r\n"
            line = self.file.readline()
        return values

    def close(self):
        self.file.close()
        self.socket.close()


def values_of(number):
    values = random.Random(number)
    return {b"%d-%d" % (number, size): values.randbytes(size) for size in SIZES}


def one_thread(number):
    client = Client()
    mine = values_of(number)
    for key, value in mine.items():
        client.set(key, value)
    for key, value in mine.items():
        assert client.get(key) == {key: value}, key
    assert client.get(*mine, b"missing") == mine
    for turn in range(20):
        assert client.ask(b"incr shared 1\r\n").strip().isdigit()
    client.close()


def in_threads(count):
    errors = []

    def run(number):
        try:
            one_thread(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def many_connections(count):
    clients = [Client() for _ in range(count)]
    for turn in range(10):
        for number, client in enumerate(clients):
            client.set(b"many-%d" % number, b"%d" % (turn + number))
        for number, client in enumerate(clients):
            other = (number + 1) % count
            assert client.get(b"many-%d" % other) == {b"many-%d" % other: b"%d" % (turn + other)}
    for client in clients:
        client.close()


first = Client()
first.set(b"shared", b"0")
in_threads(4)
assert first.get(b"shared") == {b"shared": b"80"}
many_connections(200)
first.close()
print("all values are right")
