#!/bin/sh
# What the browser tests need: Debian's Chromium where this is root and it is absent, and axe from npm. The one without
# windows is enough, and much faster; Debian has it since release 12.
# Without them the tests skip and say why; under CI=true they fail.
set -eu
cd "$(dirname "$0")/../.."

found() {
    for name in chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable; do
        command -v "$name" >/dev/null 2>&1 && return 0
    done
    return 1
}

if ! found && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    install="apt-get install -y -qq --no-install-recommends fonts-dejavu-core"
    export DEBIAN_FRONTEND=noninteractive
    (apt-get update -qq && { $install chromium-headless-shell || $install chromium; }) >/dev/null 2>&1 ||
        echo "chromium could not be installed; the browser tests will say so" >&2
fi
if command -v npm >/dev/null 2>&1 && [ ! -f node_modules/axe-core/axe.min.js ]; then
    npm ci --ignore-scripts --no-audit --no-fund --silent ||
        echo "npm could not install axe-core; the accessibility tests will say so" >&2
fi
