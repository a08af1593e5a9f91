"""Galera: three nodes that all accept writes; one is killed, one is cut off and let back, and all of it is checked."""

from __future__ import annotations

from pathlib import Path

from cluster.galera import DATABASE, Node
from cluster.load import Load
from cluster.processes import Failed, wait_for
from cluster.progress import say, title
from sloppyjobs.testing.history.entries import EnqueueFailed


def run(folder: Path, ports: list[int]) -> None:
    """Workers and producers on each of the three."""
    title("Galera: three MariaDB nodes that all accept writes")
    nodes = [Node(folder, f"node{number}", ports[number * 4 : number * 4 + 4]) for number in range(3)]
    load = Load(folder, [node.url for node in nodes])
    try:
        _create(nodes)
        load.prepare()
        load.start(workers=3, producers=3)
        load.wait_for_jobs("jobs before the faults")
        _conflicts_are_not_seen(load, nodes)
        _killed(load, nodes)
        _isolated(load, nodes)
        load.kill_worker(1)
        load.wait_for_jobs()
        load.finish()
        _same_everywhere(nodes)
    finally:
        load.kill()
        for node in nodes:
            node.kill()


def _create(nodes: list[Node]) -> None:
    first, *others = nodes
    for node in nodes:
        node.create()
    first.start([], first=True)
    first.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
    for node in others:
        node.start(nodes)
    wait_for("all nodes see each other", lambda: all(node.size() == len(nodes) for node in nodes))
    say(f"{len(nodes)} nodes are synced")


def _conflicts_are_not_seen(load: Load, nodes: list[Node]) -> None:
    refused = sum(int(node.status("wsrep_local_cert_failures") or 0) for node in nodes)
    aborted = sum(int(node.status("wsrep_local_bf_aborts") or 0) for node in nodes)
    seen = len(load.log.of_kind(EnqueueFailed))
    say(f"so far {refused} transactions were refused in certification, {aborted} aborted; producers saw {seen} errors")
    if seen:
        raise Failed("producers have seen errors of a cluster that is whole")


def _killed(load: Load, nodes: list[Node]) -> None:
    victim = nodes[2]
    with load.log.fault(f"{victim.name} is killed"):
        victim.kill()
        say(f"{victim.name} is killed (-9) under load")
        wait_for("the others go on without it", lambda: nodes[0].size() == 2 and nodes[0].is_primary())
        load.wait_for_jobs()
        say("the other two go on; its workers and producers wait")
        victim.start(nodes)
    wait_for("it is back", lambda: all(node.size() == 3 for node in nodes))
    load.wait_for_jobs()
    say(f"{victim.name} is back and synced")


def _isolated(load: Load, nodes: list[Node]) -> None:
    victim = nodes[1]
    with load.log.fault(f"{victim.name} is cut off"):
        victim.isolate(isolated=True)
        wait_for("it has lost the majority", lambda: not victim.is_primary())
        say(f"{victim.name} is cut off from the others; its clients still reach it")
        load.wait_for_jobs()
        say("the other two go on; it refuses to read and write")
        victim.isolate(isolated=False)
    wait_for("it is back", lambda: victim.is_synced() and all(node.size() == 3 for node in nodes))
    load.wait_for_jobs()
    say(f"{victim.name} is healed and synced")


def _same_everywhere(nodes: list[Node]) -> None:
    counts = [node.execute(f"SELECT count(*), sum(attempt_count) FROM {DATABASE}.sloppy_jobs")[0] for node in nodes]
    wait_for("every node has the same jobs", lambda: len(set(counts)) == 1, seconds=1)
    say(f"every node has the same {counts[0][0]} jobs")
