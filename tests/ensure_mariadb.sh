#!/bin/sh
# What the tests on MariaDB need: Debian's server, without its service, where this is root and it is absent.
# Without it the tests skip and say why; under CI=true they fail.
set -eu

if [ -z "${SLOPPYJOBS_TEST_MARIADB_URL:-}" ] && ! command -v mariadbd >/dev/null 2>&1 && [ ! -x /usr/sbin/mariadbd ] &&
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mariadb-server-core mariadb-client-core) >/dev/null 2>&1 ||
        echo "MariaDB could not be installed; the tests on it will say so" >&2
fi
