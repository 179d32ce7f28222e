"""The plugin of pytest. Without pytest these tests are skipped."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

FAKE = Path(__file__).with_name("fake_hamlyn.py")

TESTS = """
import pytest

seen = []

def test_first(lab):
    seen.append(lab)
    assert lab.machines == ["vm0", "vm1"] and "model" in (lab._folder / "lab.toml").read_text()

def test_same(lab):
    assert lab is seen[0]

@pytest.mark.hamlyn(machines=3, model="clan")
def test_other(lab):
    assert len(lab.machines) == 3 and not seen[0].is_running
    assert 'model" = "clan"' in (lab._folder / "lab.toml").read_text()

@pytest.mark.hamlyn(scope="function")
class TestOwn:
    def test_own(self, lab):
        seen.append(lab)
        assert 'model" = "dart"' in (lab._folder / "lab.toml").read_text()

    def test_another(self, lab):
        assert lab is not seen[1] and not seen[1].is_running

def test_fails(lab):
    assert lab.run(0, "echo no; exit 1")

@pytest.mark.hamlyn(scope="galaxy")
def test_unknown(lab):
    pass
"""


@unittest.skipUnless(importlib.util.find_spec("pytest"), "pytest is not installed")
class Plugin(unittest.TestCase):
    def test_labs_are_shared_as_marked(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "test_it.py").write_text(TESTS)
            words = "-m pytest -p hamlyn.pytest_plugin --hamlyn-model dart -p no:cacheprovider".split()
            done = subprocess.run(
                [sys.executable, *words, folder],
                # The package may be installed, and then pytest knows the plugin by itself.
                env={
                    **os.environ,
                    "HAMLYN": str(FAKE),
                    "TMPDIR": folder,
                    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                },
                check=False,
                capture_output=True,
                text=True,
                timeout=300,
            )
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn("1 failed, 5 passed, 1 error", done.stdout)
            for text in (
                "vm0: echo no; exit 1 ended with status 1",
                "lab: vm0.log",
                "booted",
                "scope 'galaxy' of a mark is neither",
            ):
                self.assertIn(text, done.stdout)
            self.assertEqual(len((Path(folder) / "started").read_text().split()), 5)


if __name__ == "__main__":
    unittest.main()
