"""The modules beside this file, and the browser of tests/web, can be imported by name."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "web")]
