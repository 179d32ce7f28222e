"""A plugin of pytest with the fixture `lab`.

    @pytest.mark.hamlyn(machines=2, model="clan")
    def test_ping(lab):
        lab.start(1, ["hamlyn-ping"], ready="listening")
        assert "1 answered" in lab.run(0, ["hamlyn-ping", "-c", "1", "1"]).stdout

The arguments of the mark are those of `hamlyn.Lab`. Tests that ask for the same lab one after the
other share it, unless the mark has `scope="function"` or pytest --hamlyn-scope=function. One lab
runs at a time.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from .lab import Lab

_SHARED = "shared"
_LINES = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("hamlyn", "labs of virtual machines")
    group.addoption("--hamlyn-model", default="hamlyn", help="model of the cards (default: hamlyn)")
    group.addoption("--hamlyn-machines", type=int, default=2, help="number of machines (default: 2)")
    group.addoption("--hamlyn-lab", metavar="FILE", help="lab file, for tests whose mark says nothing")
    group.addoption(
        "--hamlyn-scope",
        choices=[_SHARED, "function"],
        default=_SHARED,
        help="whether tests share a lab (default: shared)",
    )


def pytest_configure(config: pytest.Config) -> None:
    text = "hamlyn(file=None, *, scope, machines, model, ...): the lab of a test, as hamlyn.Lab takes it"
    config.addinivalue_line("markers", text)


def wanted(node: pytest.Item) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
    """Returns the arguments of a test's lab, and whether the test shares it. A function's mark adds
    to that of its class and module."""
    option = node.config.getoption
    scope = option("--hamlyn-scope")
    given: tuple[Any, ...] = ()
    keys: dict[str, Any] = {}
    for mark in reversed(list(node.iter_markers("hamlyn"))):
        given, keys = mark.args or given, {**keys, **mark.kwargs}
    scope = keys.pop("scope", scope)
    if scope not in (_SHARED, "function"):
        raise pytest.UsageError(f"scope {scope!r} of a mark is neither {_SHARED!r} nor 'function'")
    if not given and not keys and option("--hamlyn-lab"):
        given = (option("--hamlyn-lab"),)
    if not given:
        keys = {"machines": option("--hamlyn-machines"), "model": option("--hamlyn-model")} | keys
    return given, keys, scope == _SHARED


class _Labs:
    """The lab that runs, if any."""

    def __init__(self) -> None:
        self.lab: Lab | None = None
        self._key = ""

    def get(self, given: tuple[Any, ...], keys: dict[str, Any], is_shared: bool) -> Lab:
        key = repr((given, sorted(keys.items())))
        if self.lab is not None and (not is_shared or key != self._key or not self.lab.is_running):
            self.close()
        if self.lab is None:
            self.lab, self._key = Lab(*given, **keys), key
        return self.lab

    def close(self) -> None:
        lab, self.lab = self.lab, None
        if lab is not None:
            lab.close()


_lab_of = pytest.StashKey[Lab]()


@pytest.fixture(scope="session")
def _hamlyn_labs() -> Iterator[_Labs]:
    labs = _Labs()
    yield labs
    labs.close()


@pytest.fixture
def lab(request: pytest.FixtureRequest, _hamlyn_labs: _Labs) -> Iterator[Lab]:
    """A running `hamlyn.Lab`, as the test's mark `hamlyn` or the options describe it."""
    given, keys, is_shared = wanted(request.node)
    started = _hamlyn_labs.get(given, keys, is_shared)
    request.node.stash[_lab_of] = started
    yield started
    if not is_shared:
        _hamlyn_labs.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the end of each log of the lab to the report of a failed test."""
    report = yield
    lab = item.stash.get(_lab_of, None)
    if report.failed and lab is not None:
        for name, text in lab.logs().items():
            report.sections.append((f"lab: {name}", "\n".join(text.splitlines()[-_LINES:])))
    return report
