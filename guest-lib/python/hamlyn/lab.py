"""Labs of virtual machines, by the program hamlyn: HAMLYN names it, or else PATH has it.

A lab has a run directory of its own, so labs run side by side, and other ones are not touched.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import tomllib
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Self, TypedDict

from .errors import LabError, LabTimeout, RunError

Words = str | Sequence[str | os.PathLike[str]]
Name = str | int
"""A machine: its name, or its index in the lab."""

_READY = "Sockets and logs: "
"""Beginning of the line that `hamlyn lab up` prints last, with the lab's directory."""
_ENDING = 60.0
"""Seconds that a lab has to end, and a command of hamlyn to answer."""
_LOOK = 0.02
_SHOWN = 2000
"""Bytes of an output that an error shows: the end."""


class Report(TypedDict):
    """Counters of a process: the element of `hamlyn stat --json`."""

    kind: str
    name: str
    pid: int
    counters: dict[str, Any]


@dataclass(frozen=True)
class Result:
    """What a program in a machine has done."""

    code: int
    """Its exit status, or 128 and the number of the signal that ended it. 255: not run, or lost."""
    stdout: str
    stderr: str


def _hamlyn() -> str:
    name = os.environ.get("HAMLYN") or "hamlyn"
    found = shutil.which(name)
    if found is None:
        raise LabError(f"program {name} is not found: set HAMLYN to its path, or add it to PATH")
    return found


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, str | os.PathLike):
        return json.dumps(os.fspath(value), ensure_ascii=False)
    if isinstance(value, Sequence):
        return "[" + ", ".join(_toml(inner) for inner in value) + "]"
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise TypeError(f"{value!r} cannot stand in a lab file")


def _key(name: str) -> str:
    return json.dumps(name.replace("_", "-"))


def lab_file(
    machines: int, model: str | Sequence[str], machine: Mapping[str, object], keys: Mapping[str, object]
) -> str:
    """Returns the text of a lab file."""
    models = [model] * machines if isinstance(model, str) else list(model)
    if len(models) != machines:
        raise ValueError(f"there are {len(models)} models for {machines} machines")
    every = [{**machine, "model": model} for model in models]
    return "".join(
        f"{_key(name)} = {_toml(value)}\n"
        for name, value in {"name": "python", **keys, "machine": every}.items()
    )


class Program:
    """A program that was started in a machine. At the end of a `with` statement it is killed."""

    def __init__(self, title: str, words: list[str], folder: Path, given: str | bytes | None) -> None:
        self.title = title
        self._where = where = Path(tempfile.mkdtemp(dir=folder))
        self._out, self._err = where / "out", where / "err"
        (where / "in").write_bytes(given.encode() if isinstance(given, str) else given or b"")
        with (where / "in").open() as given_file, self._out.open("w") as out, self._err.open("w") as err:
            self._process = subprocess.Popen(
                words,
                env=_environment(folder),
                stdin=given_file,
                stdout=out,
                stderr=err,
                # Ctrl-C is this process's: it decides what ends.
                start_new_session=True,
            )

    @property
    def code(self) -> int | None:
        """Its exit status; None while it runs."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    @property
    def stdout(self) -> str:
        """What it has written to standard output until now."""
        return self._out.read_text(errors="replace")

    @property
    def stderr(self) -> str:
        """What it has written to standard error until now."""
        return self._err.read_text(errors="replace")

    def wait_for(self, text: str, timeout: float = 60.0) -> None:
        """Waits until an output has this text."""
        deadline = monotonic() + timeout
        while True:
            # First, so that the outputs are whole if it has ended.
            has_ended = self.code is not None
            if text in self.stdout or text in self.stderr:
                return
            if has_ended:
                raise self._failed(f"{self.title} ended with status {self.code} before {text!r} came")
            if monotonic() > deadline:
                raise LabTimeout(f"{self.title}: {text!r} did not come in {timeout} s (timeout)")
            sleep(_LOOK)

    def wait(self, timeout: float | None = 60.0, *, check: bool = True) -> Result:
        """Waits until it ends. Kills it after the timeout, or if an exception ends the wait."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            text = f"{self.title} takes longer than {timeout} s (timeout)"
            raise LabTimeout(text + _shown(self.stdout + self.stderr)) from None
        except BaseException:
            self.kill()
            raise
        if check and self.code:
            raise self._failed(f"{self.title} ended with status {self.code}")
        return self._result()

    def _result(self) -> Result:
        return Result(255 if self.code is None else self.code, self.stdout, self.stderr)

    def _failed(self, text: str) -> RunError:
        return RunError(text + _shown(self.stdout + self.stderr), self._result())

    def stop(self, timeout: float = 60.0) -> Result:
        """Sends it SIGTERM, and waits until it ends. Its status is then 143, or its own."""
        self._process.terminate()
        return self.wait(timeout, check=False)

    def kill(self) -> None:
        """Kills it at once. The lab kills a program in a machine with the process that started it."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def _shown(output: str) -> str:
    last = output[-_SHOWN:].strip()
    return f"\n{last}" if last else ""


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "HAMLYN_RUN": str(folder / "run")}


def _end(process: subprocess.Popen[bytes], folder: Path, logs: Path | None) -> tuple[int, str]:
    """Ends a lab, and removes its folder. Returns the exit status of hamlyn, and what it said."""
    try:
        process.terminate()
        code = process.wait(_ENDING)
        return code, (folder / "hamlyn.log").read_text(errors="replace")
    except subprocess.TimeoutExpired:
        raise LabTimeout(f"the lab did not end in {_ENDING} s, and is killed") from None
    finally:
        if process.stdin is not None:
            process.stdin.close()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if logs is not None:
            _copy_logs(folder, logs)
        shutil.rmtree(folder, ignore_errors=True)


def _logs(folder: Path) -> list[Path]:
    """Returns the logs of a lab that runs or has ended, and what hamlyn itself has said."""
    return [folder / "hamlyn.log", *sorted(folder.glob("run/*/*.log"))]


def _copy_logs(folder: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for log in filter(Path.is_file, _logs(folder)):
        shutil.copy(log, target)


class Lab:
    """A lab that runs from here to `close`, or to the end of a `with` statement.

    It also ends when this process does, however that ends."""

    def __init__(
        self,
        file: str | os.PathLike[str] | None = None,
        *,
        machines: int = 2,
        model: str | Sequence[str] = "hamlyn",
        machine: Mapping[str, object] | None = None,
        start_timeout: float = 300.0,
        logs: str | os.PathLike[str] | None = None,
        **keys: object,
    ) -> None:
        """Starts the lab of a file, or one of some machines with cards of this model, or of one
        for each. `machine` has more keys for each machine, and `keys` has those of the lab: as in
        docs/labs.md, with `_` for `-` if you like, and absolute paths. `logs` is a folder for the
        logs at the end."""
        if file is not None and (machine or keys):
            raise ValueError(f"keys beside the file {os.fspath(file)}: write them there")
        program = _hamlyn()
        text = lab_file(machines, model, machine or {}, keys) if file is None else Path(file).read_text()
        try:
            described = enumerate(tomllib.loads(text).get("machine", []))
            #: The names of the machines.
            self.machines: list[str] = [one.get("name", f"vm{at}") for at, one in described]
        except (tomllib.TOMLDecodeError, AttributeError, TypeError):
            # hamlyn tells what is wrong, and where.
            self.machines = []
        self._program = program
        self._folder = Path(tempfile.mkdtemp(prefix="hamlyn-"))
        path = self._folder / "lab.toml" if file is None else Path(file).absolute()
        if file is None:
            path.write_text(text)
        log = self._folder / "hamlyn.log"
        with log.open("w") as said:
            self._process = subprocess.Popen(
                [program, "lab", "up", "--keep", "--until-eof", str(path)],
                env=_environment(self._folder),
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        kept = None if logs is None else Path(logs).absolute()
        self._end = weakref.finalize(self, _end, self._process, self._folder, kept)
        self._programs: list[Program] = []
        try:
            #: The folder with the lab's sockets and logs.
            self.directory = self._wait_until_ready(log, start_timeout)
        except BaseException:
            self._end()
            raise

    def _wait_until_ready(self, log: Path, timeout: float) -> Path:
        deadline = monotonic() + timeout
        while True:
            code = self._process.poll()
            said = log.read_text(errors="replace")
            for line in said.splitlines(keepends=True):
                if line.startswith(_READY) and line.endswith("\n"):
                    return Path(line.removeprefix(_READY).strip())
            if code is not None:
                raise LabError(f"the lab did not start: hamlyn ended with status {code}{_shown(said)}")
            if monotonic() > deadline:
                raise LabTimeout(f"the lab did not start in {timeout} s (start_timeout){_shown(said)}")
            sleep(_LOOK)

    @property
    def is_running(self) -> bool:
        """Whether it runs: it also ends if all machines are off, or if the switch fails."""
        return self._end.alive and self._process.poll() is None

    @property
    def run_directory(self) -> Path:
        """The value of HAMLYN_RUN by which other terminals find the lab."""
        return self._folder / "run"

    def _name(self, machine: Name) -> str:
        return machine if isinstance(machine, str) else self.machines[machine]

    def _check(self) -> None:
        if not self.is_running:
            log = self._folder / "hamlyn.log"
            said = log.read_text(errors="replace") if log.exists() else ""
            raise LabError(f"the lab has ended{_shown(said)}")

    def hamlyn(self, *words: str | os.PathLike[str], timeout: float = _ENDING) -> str:
        """Runs a command of hamlyn for this lab, and returns what it prints."""
        self._check()
        text = f"hamlyn {' '.join(map(str, words))}"
        try:
            done = subprocess.run(
                [self._program, *map(str, words)],
                env=_environment(self._folder),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise LabTimeout(f"{text} takes longer than {timeout} s (timeout)") from None
        if done.returncode:
            raise LabError(f"{text} ended with status {done.returncode}{_shown(done.stderr)}")
        return done.stdout

    def start(
        self,
        machine: Name,
        command: Words,
        *,
        ready: str | None = None,
        timeout: float = 60.0,
        user: int = 0,
        input: str | bytes | None = None,
    ) -> Program:
        """Starts a program in a machine: a list of words, or a text for the shell. With `ready`,
        waits until its output has this text. User 1001 is user1."""
        self._check()
        name = self._name(machine)
        words = ["sh", "-c", command] if isinstance(command, str) else list(map(str, command))
        given = ["exec", "--uid", str(user), *([] if input is not None else ["-n"]), name, "--", *words]
        shown = command if isinstance(command, str) else " ".join(words)
        program = Program(f"{name}: {shown}", [self._program, *given], self._folder, input)
        self._programs.append(program)
        try:
            if ready is not None:
                program.wait_for(ready, timeout)
        except BaseException:
            program.kill()
            raise
        return program

    def run(
        self,
        machine: Name,
        command: Words,
        *,
        timeout: float | None = 60.0,
        check: bool = True,
        user: int = 0,
        input: str | bytes | None = None,
    ) -> Result:
        """Runs a program in a machine, and waits until it ends. With `check`, raises RunError if
        its status is not 0."""
        program = self.start(machine, command, user=user, input=input)
        try:
            return program.wait(timeout, check=check)
        finally:
            self._programs.remove(program)
            shutil.rmtree(program._where, ignore_errors=True)

    def put(self, machine: Name, source: str | os.PathLike[str], path: str = "") -> None:
        """Copies a file into a machine; without a path, to root's home."""
        self.hamlyn("cp", Path(source).absolute(), f"{self._name(machine)}:{path}", timeout=600)

    def get(self, machine: Name, path: str, target: str | os.PathLike[str] = ".") -> None:
        """Copies a file out of a machine, to a file or folder here."""
        self.hamlyn("cp", f"{self._name(machine)}:{path}", Path(target).absolute(), timeout=600)

    def stat(self) -> list[Report]:
        """Returns the counters of each process, as of `hamlyn stat --json`."""
        reports: list[Report] = json.loads(self.hamlyn("stat", "--json"))
        return reports

    def counters(self, part: str) -> dict[str, int]:
        """Returns the counters of a card, such as "card0", or of "switch". Names are those of
        expectations in lab files, such as "card.refused_key"."""
        parts: dict[str, Any] = {}
        for report in self.stat():
            counters = report["counters"]
            if report["kind"] == "fabric":
                parts |= {**counters.get("cards", {}), "switch": counters.get("switch", {})}
            else:
                parts["switch" if report["kind"] == "switch" else report["name"]] = counters
        if part not in parts:
            raise LabError(f"{part} is not running; there are: {', '.join(sorted(parts))}")
        return dict(_flat(parts[part]))

    def fault(self, card: str, *rules: str, seed: int = 0) -> None:
        """Makes a card misbehave: rules as in docs/faults.md. They replace earlier ones; without
        rules, the card behaves again. "all" is all cards."""
        self.hamlyn("fault", card, *(["--seed", str(seed), "--", *rules] if rules else ["--end"]))

    def logs(self) -> dict[str, str]:
        """Returns the logs by name: "vm0.log" is a console, "hamlyn.log" what hamlyn has said."""
        found = filter(Path.is_file, _logs(self._folder))
        return {log.name: log.read_text(errors="replace") for log in found}

    def close(self) -> None:
        """Ends the lab and all that runs in it. Raises LabError if a machine has failed, or if a
        run or an expectation of the lab's file is not as the file says."""
        try:
            while self._programs:
                self._programs.pop().kill()
        finally:
            ended = self._end()
        # None: it was closed before.
        if ended is not None and ended[0]:
            raise LabError(f"the lab ended with status {ended[0]}{_shown(ended[1])}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except LabError:
            # What went wrong first matters more.
            if kind is None:
                raise


def _flat(tree: Mapping[str, Any], before: str = "") -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for name, value in tree.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{before}{name}.")
        elif isinstance(value, int):
            found.append((before + name, value))
    return found
