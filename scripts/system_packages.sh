#!/usr/bin/env bash
# Installs the Debian packages that set-up needs when run as root, and says what is missing otherwise.
set -euo pipefail
missing=()
command -v cc >/dev/null 2>&1 || missing+=(gcc)
[ -e /usr/include/string.h ] || missing+=(libc6-dev)
[ "${#missing[@]}" -eq 0 ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"
else
  echo "codedag: missing system packages: ${missing[*]} (install them as root, e.g. apt-get install ${missing[*]})." >&2
  echo "codedag: going on without a C compiler: the plain-Python twin and numba/numpy kernels will be used." >&2
fi
