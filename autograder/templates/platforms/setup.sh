#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the autograder's image.
set -euo pipefail
umask 022
kit=/autograder/source/kit
venv=/opt/ringside/venv

# The hidden suite is in here: root's alone, before anything else is done.
chmod -R go= /autograder/source

# The kit needs Python 3.11 or newer, with venv.
find_python() {
  for each in python3 python3.13 python3.12 python3.11; do
    if "$each" -c 'import sys, venv, ensurepip; raise SystemExit(sys.version_info < (3, 11))' \
      2>/dev/null; then
      command -v "$each"
      return
    fi
  done
  return 1
}
if ! python="$(find_python)"; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update
  apt-get install -y --no-install-recommends python3-venv || true
  find_python >/dev/null || apt-get install -y --no-install-recommends python3.11 python3.11-venv
  python="$(find_python)"
fi
[ -x /usr/bin/setpriv ] || { apt-get update && apt-get install -y --no-install-recommends util-linux; }

"$python" -m venv "$venv"
# PyTorch's build for CPUs: the usual one brings gigabytes for GPUs that aren't here.
export TORCH_INDEX="${TORCH_INDEX:-https://download.pytorch.org/whl/cpu}"
"$venv/bin/python" "$kit/install.py" {{ extras }}
"$venv/bin/python" -m compileall -q "$kit/ringside" "$kit/autograder"
# Ranks are another user's, and must read the libraries.
chmod -R a+rX /opt/ringside
