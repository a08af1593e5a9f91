#!/bin/sh
# The servers of "make cluster" that no wheel brings: Debian's, where this is root and they are absent.
set -eu

missing=""
[ -x /usr/sbin/mariadbd ] || missing="$missing mariadb-server"
[ -f /usr/lib/galera/libgalera_smm.so ] || missing="$missing galera-4"
command -v rsync >/dev/null 2>&1 || missing="$missing rsync"
[ -x /usr/sbin/pgbouncer ] || missing="$missing pgbouncer"

if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing) >/dev/null 2>&1 ||
            echo "could not be installed:$missing; the parts that need them will say so" >&2
    else
        echo "missing:$missing; the parts that need them will say so" >&2
    fi
fi
