"""``python -m sloppyjobs``: the command line."""

from sloppyjobs.cli import main

if __name__ == "__main__":
    main(prog_name="python -m sloppyjobs")
