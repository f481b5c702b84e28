#!/usr/bin/env bash
# Names a Python that regress-gate is tested with, if the runner has one, so that no other needs to be set up. What an
# earlier actions/setup-python put first is found first. Debian's Python without python3-venv cannot make environments.
set -euo pipefail

for name in python3 python python3.13 python3.12 python3.11; do
  path=$(command -v "$name") || continue
  if "$path" -I -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
    echo "path=$path" >>"$GITHUB_OUTPUT"
    exit 0
  fi
done
echo "no Python 3.11 to 3.13 found on this runner: setting one up"
