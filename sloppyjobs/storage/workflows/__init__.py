"""Named graphs of jobs: written whole, read in bounds, commanded as one."""
