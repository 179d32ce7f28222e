"""Channels, with a library that only pretends to send. `ends.py` uses the real one."""

import ctypes
import errno
import os
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

import hamlyn
from hamlyn import _library, channel
from hamlyn.errors import error_of


class FakeCalls(unittest.TestCase):
    def setUp(self) -> None:
        self.calls = mock.MagicMock()
        self.calls.uln_version.return_value = 0x0905
        self.calls.uln_error.return_value = b"why"
        self.calls.uln_card_model.return_value = b"dart"
        for name in _library._CALLS:
            getattr(self.calls, name).side_effect = lambda *_: 0
        for name in ("uln_card_open", "uln_listen"):
            getattr(self.calls, name).side_effect = self.opens
        self.calls.uln_connect.side_effect = lambda *given: self.opens(*given[:-2]) or self.opens(*given[:-1])
        self.calls.uln_longest.side_effect = lambda *_: 100
        self.load = mock.patch.object(ctypes, "CDLL", return_value=self.calls).start()
        self.addCleanup(mock.patch.stopall)
        for cached in (_library.library, channel._own_card):
            cached.cache_clear()
            self.addCleanup(cached.cache_clear)

    @staticmethod
    def opens(*given: Any) -> int:
        given[-1]._obj.value = 4096
        return 0

    def connected(self) -> hamlyn.Channel:
        return hamlyn.Channel.connect("name", 1)

    def test_library_is_checked(self) -> None:
        with mock.patch.dict(os.environ, HAMLYN_LIBRARY="/x/libhamlyn.so"):
            self.assertEqual(hamlyn.Card().model, "dart")
        self.load.assert_called_once_with("/x/libhamlyn.so")
        for version, text in [(0x0200, "0.2.0, and this package needs 0.9"), (0x1_0100, "1.1.0")]:
            _library.library.cache_clear()
            self.calls.uln_version.return_value = version
            with self.assertRaisesRegex(hamlyn.LibraryError, text):
                hamlyn.Card()

    def test_other_and_missing_libraries_are_named(self) -> None:
        mock.patch.stopall()
        _library.library.cache_clear()
        other = "is not libhamlyn.so of version 0.9"
        for name, text in [("libc.so.6", other), ("/no/lib.so", "set HAMLYN_LIBRARY")]:
            with mock.patch.dict(os.environ, HAMLYN_LIBRARY=name):
                with self.assertRaisesRegex(hamlyn.LibraryError, f"{name}.*{text}"):
                    hamlyn.Card()

    def test_waits_are_slices(self) -> None:
        answers = iter([-errno.ETIMEDOUT, -errno.ETIMEDOUT, 0])
        self.calls.uln_send.side_effect = lambda *_: next(answers)
        self.connected().send(b"data")
        sent = [call.args[1:] for call in self.calls.uln_send.call_args_list]
        self.assertEqual(sent, [(b"data", 4, 100)] * 3)
        self.calls.uln_recv.side_effect = lambda *_: -errno.EAGAIN
        with self.assertRaisesRegex(TimeoutError, "the next message takes longer than 0.25 s"):
            self.connected().recv(0.25)
        self.assertIsNone(self.connected().try_recv())
        self.assertEqual(self.calls.uln_recv.call_args.args[2], 0)

    def test_message_is_copied_and_given_back(self) -> None:
        bytes_of_peer = ctypes.create_string_buffer(b"a\0b", 3)

        def came(_: object, message: Any, __: int) -> int:
            message._obj.data, message._obj.length = ctypes.addressof(bytes_of_peer), 3
            return 1

        self.calls.uln_recv.side_effect = came
        self.assertEqual(self.connected().recv(), b"a\0b")
        self.calls.uln_release.assert_called_once()
        self.calls.uln_release.side_effect = lambda *_: -errno.ECONNABORTED
        with self.assertRaisesRegex(hamlyn.CardReset, "why"):
            self.connected().recv()

    def test_ends_are_destroyed_once(self) -> None:
        with self.connected() as closed:
            pass
        closed.close()
        self.calls.uln_close.assert_called_once()
        self.calls.uln_sender_destroy.assert_not_called()
        self.calls.uln_receiver_destroy.assert_called_once()
        with self.assertRaises(KeyError), self.connected() as abandoned:
            raise KeyError
        abandoned.abandon()
        self.calls.uln_close.assert_called_once()
        self.calls.uln_sender_destroy.assert_called_once()
        for use in (lambda: abandoned.send(b""), abandoned.try_recv, abandoned.fileno):
            with self.assertRaisesRegex(ValueError, "the channel is closed"):
                use()

    def test_close_forgives_a_peer_that_has_closed(self) -> None:
        self.calls.uln_error.return_value = b"the peer is lost: it dropped its end without closing it"
        self.calls.uln_delivered.side_effect = lambda *_: -errno.ECONNRESET
        self.connected().close()
        self.calls.uln_recv.side_effect = lambda *_: -errno.ECONNRESET
        with self.assertRaises(hamlyn.Abandoned):
            self.connected().close()

    def test_failed_close_destroys_both(self) -> None:
        channel = self.connected()
        self.calls.uln_delivered.side_effect = lambda *_: -errno.EHOSTDOWN
        with self.assertRaises(hamlyn.HostLost):
            channel.close()
        self.calls.uln_sender_destroy.assert_called_once()
        self.calls.uln_receiver_destroy.assert_called_once()

    def test_card_outlives_calls_that_use_it(self) -> None:
        card = hamlyn.Card("/dev/dart0")
        self.calls.uln_card_close.assert_not_called()
        listener = hamlyn.Listener("name", card=card)
        card.close()
        self.calls.uln_card_close.assert_called_once()
        with self.assertRaisesRegex(ValueError, "the card is closed"):
            card.host  # noqa: B018
        listener.close()
        self.calls.uln_listener_destroy.assert_called_once()

    def test_arguments_out_of_range_are_refused(self) -> None:
        cases: list[tuple[Callable[[], object], str]] = [
            (lambda: hamlyn.Channel.connect("a", 2**32), "host 4294967296"),
            (lambda: hamlyn.Channel.connect("a\0b"), "null character"),
            (lambda: hamlyn.Channel.connect("a", options=hamlyn.Options(capacity=-1)), "capacity -1"),
            (lambda: hamlyn.Channel.connect("a", options=hamlyn.Options(polling=4000)), "polling 4000 s"),
        ]
        for act, text in cases:
            with self.assertRaisesRegex(ValueError, text):
                act()


class Errors(unittest.TestCase):
    def test_losses_are_told_apart(self) -> None:
        abandoned = "the peer is lost: it dropped its end without closing it"
        lost = "the peer is lost: "
        for number, text, kind, builtin in [
            (errno.ECONNRESET, abandoned, hamlyn.Abandoned, ConnectionResetError),
            (errno.ECONNRESET, f"{lost}its process ended", hamlyn.PeerDied, ConnectionResetError),
            (errno.ECONNRESET, f"{lost}for another reason", hamlyn.PeerLost, ConnectionError),
            (errno.EHOSTDOWN, "", hamlyn.HostLost, ConnectionError),
            (errno.ENETRESET, "", hamlyn.HostReset, ConnectionError),
            (errno.ENETDOWN, "", hamlyn.LinkLost, ConnectionError),
            (errno.ECONNABORTED, "", hamlyn.CardReset, ConnectionAbortedError),
            (errno.EBADMSG, "", hamlyn.Nonsense, ConnectionError),
            (errno.ECONNREFUSED, "", ConnectionRefusedError, OSError),
            (errno.EADDRINUSE, "", OSError, OSError),
        ]:
            error = error_of(number, text)
            self.assertIs(type(error), kind)
            self.assertIsInstance(error, builtin)
            self.assertEqual((error.errno, error.strerror), (number, text))


if __name__ == "__main__":
    unittest.main()
