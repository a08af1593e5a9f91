"""Where handlers run: threads, one event loop, or processes of their own."""
