"""Labs, with a program that only pretends to run machines."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import tomllib
import unittest
from pathlib import Path
from time import monotonic, sleep
from unittest import mock

import hamlyn
from hamlyn.lab import lab_file

FAKE = Path(__file__).with_name("fake_hamlyn.py")


def setUpModule() -> None:
    # A program that was started in the background may have been told to ignore them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    # A wait without an end ends all tests.
    signal.alarm(180)


def tearDownModule() -> None:
    signal.alarm(0)


def runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Labs(unittest.TestCase):
    def setUp(self) -> None:
        # The fake lab notes its process here.
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.set(HAMLYN=str(FAKE), TMPDIR=folder.name)

    def set(self, **variables: str) -> None:
        patched = mock.patch.dict(os.environ, variables)
        patched.start()
        self.addCleanup(patched.stop)
        tempfile.tempdir = None
        self.addCleanup(setattr, tempfile, "tempdir", None)

    def assert_all_ended(self) -> None:
        """Fails unless a lab was started, and nothing of it is left."""
        processes = [int(line) for line in (self.folder / "started").read_text().split()]
        deadline = monotonic() + 60
        while any(map(runs, processes)) and monotonic() < deadline:
            sleep(0.02)
        self.assertFalse(any(map(runs, processes)))
        self.assertEqual(list(self.folder.glob("hamlyn-*")), [])

    def test_generated_file_says_what_was_asked(self) -> None:
        text = lab_file(
            2, ["clan", "dart"], {"memory": "512M"}, {"ip": "10.0.0.0/24", "fabric": {"express_part": '"'}}
        )
        machines = [{"memory": "512M", "model": model} for model in ("clan", "dart")]
        fabric = {"express-part": '"'}
        expected = {"name": "python", "ip": "10.0.0.0/24", "fabric": fabric, "machine": machines}
        self.assertEqual(tomllib.loads(text), expected)
        with self.assertRaisesRegex(ValueError, "there are 1 models for 2 machines"):
            lab_file(2, ["clan"], {}, {})

    def test_programs_run_and_fail(self) -> None:
        with hamlyn.Lab(machines=3) as lab:
            self.assertEqual(lab.machines, ["vm0", "vm1", "vm2"])
            result = lab.run(2, "cat; echo bad >&2; exit 3", input="in", check=False)
            self.assertEqual(result, hamlyn.Result(3, "in", "bad\n"))
            with self.assertRaisesRegex(hamlyn.RunError, "vm0: false ended with status 1"):
                lab.run("vm0", ["false"])
            self.assertEqual(lab.run(0, "kill -9 $$", check=False).code, 137)
            slow = lab.start(0, "echo slow; exec sleep 1000", ready="slow")
            with self.assertRaisesRegex(hamlyn.LabTimeout, "0.2 s.*\nslow"):
                slow.wait(0.2)
            self.assertEqual(slow.code, 137)
            with self.assertRaisesRegex(hamlyn.RunError, "status 0 before 'never' came\nearly"):
                lab.start(0, "echo early", ready="never")
            server = lab.start(0, "echo ready; exec sleep 1000", ready="ready")
            self.assertEqual((server.code, server.stop().code, server.stdout), (None, 143, "ready\n"))
            forgotten = lab.start(0, ["sleep", "1000"])
        self.assertEqual(forgotten._process.poll(), -signal.SIGKILL)
        self.assert_all_ended()

    def test_names_are_those_of_the_file(self) -> None:
        file = self.folder / "demo.toml"
        file.write_text('name = "demo"\n[[machine]]\nname = "one"\n[[machine]]\n')
        with hamlyn.Lab(file) as lab:
            self.assertEqual(lab.machines, ["one", "vm1"])
            self.assertEqual(lab.directory, lab.run_directory / "lab-demo")
        with self.assertRaisesRegex(ValueError, "keys beside the file .*demo.toml"):
            hamlyn.Lab(file, ip="10.0.0.0/24")

    def test_counters_have_the_same_names_in_any_layout(self) -> None:
        with hamlyn.Lab() as lab:
            self.assertEqual(lab.counters("card0"), {"host": 0, "card.sent": 5})
            self.assertEqual(lab.counters("switch"), {"ports.0.stops": 4})
            with self.assertRaisesRegex(hamlyn.LabError, "card1 is not running; there are: card0, switch"):
                lab.counters("card1")
            self.set(FAKE_LAYOUT="fabric")
            self.assertEqual(
                (lab.counters("card0"), lab.counters("switch")), ({"card.sent": 6}, {"stops": 7})
            )

    def test_commands_reach_hamlyn(self) -> None:
        with hamlyn.Lab() as lab, mock.patch.object(lab, "hamlyn") as hamlyn_of_lab:
            lab.fault("card0", "packet drop every=2", "card reset", seed=7)
            lab.fault("all")
            lab.put(1, "/a", "/tmp/b")
            lab.get("vm0", "/tmp/b", "/c")
            said = [tuple(map(str, call.args)) for call in hamlyn_of_lab.call_args_list]
        rules = ("fault", "card0", "--seed", "7", "--", "packet drop every=2", "card reset")
        copies = ("cp", "/a", "vm1:/tmp/b"), ("cp", "vm0:/tmp/b", "/c")
        self.assertEqual(said, [rules, ("fault", "all", "--end"), *copies])

    def test_errors_carry_what_hamlyn_said(self) -> None:
        with hamlyn.Lab() as lab, self.assertRaisesRegex(hamlyn.LabError, "card card9 is not running"):
            lab.fault("card9", "card reset")
        with self.assertRaisesRegex(hamlyn.LabError, "the lab has ended"):
            lab.run(0, "true")
        self.set(FAKE_START="fails")
        with self.assertRaisesRegex(hamlyn.LabError, "status 1\nerror: 1 mistake.*\n.*no such model"):
            hamlyn.Lab()
        self.set(HAMLYN="missing-hamlyn")
        with self.assertRaisesRegex(hamlyn.LabError, "missing-hamlyn is not found: set HAMLYN"):
            hamlyn.Lab()

    def test_start_has_a_time_limit(self) -> None:
        self.set(FAKE_START="hangs")
        with self.assertRaisesRegex(hamlyn.LabTimeout, "did not start in 2 s"):
            hamlyn.Lab(start_timeout=2)
        self.assertEqual(list(self.folder.glob("hamlyn-*")), [])

    def test_failed_lab_is_an_error_after_the_block(self) -> None:
        self.set(FAKE_STATUS="1")
        with self.assertRaisesRegex(hamlyn.LabError, "status 1\n(.*\n)*error: of 2 machines, 1 failed"):
            with hamlyn.Lab():
                pass
        with self.assertRaises(KeyError), hamlyn.Lab():
            raise KeyError("first")
        self.assert_all_ended()

    def test_interrupt_ends_the_lab(self) -> None:
        with self.assertRaises(KeyboardInterrupt), hamlyn.Lab(logs=self.folder / "logs") as lab:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            lab.run(0, ["sleep", "1000"])
        lab.close()
        self.assert_all_ended()
        self.assertEqual((self.folder / "logs/vm0.log").read_text(), "booted\n")

    def test_lab_ends_with_its_process(self) -> None:
        for end, left in [("pass", 0), ("os.kill(os.getpid(), signal.SIGKILL)", 1)]:
            words = [sys.executable, "-c", f"import hamlyn, os, signal; lab = hamlyn.Lab(); {end}"]
            subprocess.run(words, check=False, timeout=60)
            # A process that was killed leaves a folder, and no process.
            folders = list(self.folder.glob("hamlyn-*"))
            self.assertEqual(len(folders), left)
            for folder in folders:
                folder.rename(self.folder / "left")
            self.assert_all_ended()


if __name__ == "__main__":
    unittest.main()
