#!/bin/sh
# What the browser tests need: Debian's Chromium where this is root and it is absent, and axe from npm.
# Without them the tests skip and say why; under CI=true they fail.
set -eu
cd "$(dirname "$0")/../.."

found() {
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        command -v "$name" >/dev/null 2>&1 && return 0
    done
    return 1
}

if ! found && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core) >/dev/null 2>&1 ||
        echo "chromium could not be installed; the browser tests will say so" >&2
fi
if command -v npm >/dev/null 2>&1 && [ ! -f node_modules/axe-core/axe.min.js ]; then
    npm ci --ignore-scripts --no-audit --no-fund --silent ||
        echo "npm could not install axe-core; the accessibility tests will say so" >&2
fi
