"""``python -m cluster``: databases with several servers on loopback, broken under load, and the history checked.

Each part starts its servers from nothing in a folder of its own and stops them at the end. Nothing else on the machine
is touched. The exit code is 1 where a promise was broken.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from cluster.ports import free_ports
from cluster.processes import Failed
from cluster.progress import say

PARTS = {"standby": "cluster.standby", "pooler": "cluster.pooler", "galera": "cluster.multi_primary"}
PORTS = 16


def main() -> int:
    """Run the parts that were asked for, all by default."""
    parser = argparse.ArgumentParser(prog="python -m cluster", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help=f"which of {', '.join(PARTS)}; all by default")
    parser.add_argument("--keep", action="store_true", help="keep the folders with logs and data")
    options = parser.parse_args()
    # The servers are stopped on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    failed = False
    for part in options.parts or PARTS:
        folder = Path(tempfile.mkdtemp(prefix=f"sloppy-{part}-"))
        folder.chmod(0o755)
        try:
            importlib.import_module(PARTS[part]).run(folder, free_ports(PORTS))
        except Failed as error:
            failed = True
            say(f"FAILED; logs and data are in {folder}")
            print(error)
        else:
            if options.keep:
                say(f"logs and data are in {folder}")
            else:
                shutil.rmtree(folder, ignore_errors=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
