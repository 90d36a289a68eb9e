#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the autograder's image.
set -euo pipefail
umask 022
kit=/autograder/source/kit
venv=/opt/ringside/venv

# The hidden suite is in here: root's alone, before anything else is done.
chmod -R go= /autograder/source

refuse() { # what this image lacks
  # shellcheck disable=SC1091
  . /etc/os-release 2>/dev/null || PRETTY_NAME="unknown"
  echo "NOT BUILT. The kit needs $1, and this image ($PRETTY_NAME) neither has nor offers that." \
    "On Configure Autograder choose the base image Ubuntu 22.04 or newer, variant Base, and" \
    "Update Autograder." >&2
  exit 2
}

install_packages() {
  command -v apt-get >/dev/null || return 1
  export DEBIAN_FRONTEND=noninteractive
  apt-get update && apt-get install -y --no-install-recommends "$@"
}

find_python() {
  for name in python3 python3.14 python3.13 python3.12 python3.11; do
    if "$name" -c 'import sys, venv, ensurepip; raise SystemExit(sys.version_info < (3, 11))' \
      2>/dev/null; then
      command -v "$name"
      return
    fi
  done
  return 1
}

# Ubuntu 24.04's own Python is new enough; Ubuntu 22.04's is 3.10, and has 3.11 beside it.
find_python >/dev/null || install_packages python3-venv || true
find_python >/dev/null || install_packages python3.11 python3.11-venv || true
python="$(find_python)" || refuse "Python 3.11 or newer with venv"
[ -x /usr/bin/setpriv ] || install_packages util-linux || refuse "/usr/bin/setpriv (util-linux)"

"$python" -m venv "$venv"
# PyTorch's build for CPUs: the usual one brings gigabytes for GPUs that aren't here.
export TORCH_INDEX="${TORCH_INDEX:-https://download.pytorch.org/whl/cpu}"
"$venv/bin/python" "$kit/install.py" {{ extras }}
"$venv/bin/python" -m compileall -q "$kit/ringside" "$kit/autograder"
# Ranks are another user's, and must read the libraries.
chmod -R a+rX /opt/ringside
