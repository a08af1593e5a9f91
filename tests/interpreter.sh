#!/bin/sh
# Names the Python for .venv: python3; or the system's own, where python3 was built without optimizations, as pyenv does
# unless told otherwise. By the system's the tests take a quarter less of the processors.
set -u

system=/usr/bin/python3
plain='import sys, sysconfig; sys.exit("--enable-optimizations" in str(sysconfig.get_config_var("CONFIG_ARGS")))'
usable='import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))'
if python3 -c "$plain" 2>/dev/null && "$system" -c "$usable" 2>/dev/null; then
    echo "$system"
else
    echo python3
fi
