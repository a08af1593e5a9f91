"""What applications hang onto their jobs: hooks and traces."""
