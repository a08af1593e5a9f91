"""``python -m sloppyjobs.cli``, where the script is not on the path."""

from __future__ import annotations

from sloppyjobs.cli.root import main

if __name__ == "__main__":
    main(prog_name="sloppyjobs")
