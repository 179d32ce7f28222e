#!/usr/bin/env python3
"""A program hamlyn without machines: "machines" are this host, cards have made-up counters.

FAKE_START is the name of a way in which a lab does not start, and FAKE_STATUS its exit status.
"""

import json
import os
import signal
import sys
import threading
import tomllib
from pathlib import Path

RUN = Path(os.environ["HAMLYN_RUN"])
STAT = [
    {"kind": "switch", "name": "switch", "pid": 1, "counters": {"ports": {"0": {"stops": 4}}}},
    {"kind": "card", "name": "card0", "pid": 2, "counters": {"host": 0, "card": {"sent": 5}, "x": "y"}},
]
FABRIC = [
    {
        "kind": "fabric",
        "name": "fabric",
        "pid": 3,
        "counters": {"cards": {"card0": {"card": {"sent": 6}}}, "switch": {"stops": 7}},
    }
]


def until_eof(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


def up(words: list[str]) -> int:
    assert words[:2] == ["--keep", "--until-eof"], words
    start = os.environ.get("FAKE_START")
    if start == "fails":
        print("error: 1 mistake found\nlab.toml:3: no such model", file=sys.stderr)
        return 1
    name = tomllib.loads(Path(words[2]).read_text())["name"]
    lab = RUN / f"lab-{name}"
    lab.mkdir(parents=True)
    (lab / "vm0.log").write_text("booted\n")
    (RUN.parent.parent / "started").open("a").write(f"{os.getpid()}\n")
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threading.Thread(target=until_eof, args=(stop,), daemon=True).start()
    if start != "hangs":
        print(f"Sockets and logs: {lab}\nCtrl-C ends everything", flush=True)
    stop.wait()
    lab.rename(RUN / f"ended-{name}")
    print("error: of 2 machines, 1 failed" if "FAKE_STATUS" in os.environ else "ending", flush=True)
    return int(os.environ.get("FAKE_STATUS", "0"))


def main(words: list[str]) -> int:
    match words:
        case ["lab", "up", *rest]:
            return up(rest)
        case ["exec", "--uid", _, *rest]:
            command = rest[rest.index("--") + 1 :]
            os.execvp(command[0], command)
        case ["stat", "--json"]:
            print(json.dumps(FABRIC if os.environ.get("FAKE_LAYOUT") else STAT))
        case ["fault", "card9", *_]:
            print("error: card card9 is not running", file=sys.stderr)
            return 1
        case _:
            print(json.dumps(words))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
