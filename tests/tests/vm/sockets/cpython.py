"""CPython's own tests of TCP sockets and of waiting for them; prints those that do not pass.

Names of tests as arguments: runs only these, and prints those that pass, too.
"""

import contextlib
import re
import sys
import unittest

MODULES = [
    "test.test_socket",
    "test.test_selectors",
    "test.test_socketserver",
    "test.test_asyncio.test_sock_lowlevel",
]
# Tests of other protocols and systems, and those that repeat waits of seconds with other classes.
OTHERS = re.compile(
    "UDP|CAN|ISOTP|J1939|VSOCK|RDS|Alg|Packet|QIPCRTR|TIPC|Hyper|Crypto|MSWindows|MacOS|SocketSharing|Devpoll|Kqueue|Bluetooth|Unix|IPv6"
    "|LineBuffered|SmallBuffered|UnicodeWrite|UnicodeReadWrite|NetworkConnection|UsingSendTest"
    "|DefaultSelector|PollSelectorTest|SelectSelector|PollEventLoop|SelectEventLoop"
    # Skips itself at times, by the answer of the kernel's SCTP (CPython's issue 13876).
    r"|SCTPStreamTest\.testRecvmsgEOF"
)
# Of those that the names above fit too.
KEPT = re.compile(r"\.EpollSelector|\.EPollEventLoop")


def flat(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


class Result(unittest.TextTestResult):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.passed = []

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed.append((test, None))


def names(entries):
    # Without the parameters of a part of a test.
    return sorted({test.id().split(" ")[0] for test, _ in entries})


only = sys.argv[1:]
loaded = flat(unittest.defaultTestLoader.loadTestsFromNames(only or MODULES))
suite = unittest.TestSuite(test for test in loaded if KEPT.search(test.id()) or not OTHERS.search(test.id()))
with open("/tmp/cpython.log", "w") as log, contextlib.redirect_stdout(log):
    result = unittest.TextTestRunner(log, verbosity=2, warnings="ignore", resultclass=Result).run(suite)
for kind in ("failures", "errors", "skipped", *(["passed"] if only else [])):
    for name in names(getattr(result, kind)):
        print(kind, name)
print("ran", result.testsRun, flush=True)
