"""What programs do with TCP connections, one case after another, between two machines.

    programs.py server | client [switches]

With `switches`, cases wait until the connections have been switched that are to be.
The test writes a case's name to the server's standard input, and the name and the server's port
to the client's. Each case runs in a child process, and its result is a line of JSON.
"""

import faulthandler
import json
import os
import sys
import tempfile
import time
import traceback

# These add the cases.
import both_directions  # noqa: F401
import connections  # noqa: F401
import sending  # noqa: F401
import servers  # noqa: F401
import waiting  # noqa: F401
from ends import CASES, LIMIT, End


def run(name, port, errors):
    faulthandler.dump_traceback_later(LIMIT, exit=True, file=errors)
    try:
        end = End(port)
        CASES[name].run(end)
    except BaseException:
        traceback.print_exc(file=errors)
        errors.flush()
        # Threads may still wait for each other.
        os._exit(1)
    faulthandler.cancel_dump_traceback_later()
    sys.exit(0)


def main():
    print(json.dumps({"cases": list(CASES)}), flush=True)
    while words := sys.stdin.readline().split():
        name, port = words[0], int(words[1]) if len(words) > 1 else None
        with tempfile.TemporaryFile("w+") as errors:
            begin = time.monotonic()
            child = os.fork()
            if child == 0:
                run(name, port, errors)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            errors.seek(0)
            result = {
                "case": name,
                "pid": child,
                "status": status,
                "seconds": round(time.monotonic() - begin, 1),
                "error": errors.read(),
                "least": CASES[name].least[sys.argv[1]],
                "most": CASES[name].most,
            }
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
