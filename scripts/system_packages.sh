#!/usr/bin/env bash
# Installs the Debian packages that set-up and tests need when run as root, and says what is missing otherwise.
# With the word "peers" also what the other input pipelines of bench/peers.py need.
set -euo pipefail
missing=()
command -v cc >/dev/null 2>&1 || missing+=(gcc)
[ -e /usr/include/string.h ] || missing+=(libc6-dev)
browser=()
command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 ||
  browser+=(chromium)
# An OpenCL driver for the processor: a second device for the tests, found by its entry for the loader.
opencl=()
compgen -G "/etc/OpenCL/vendors/*.icd" >/dev/null || opencl+=(pocl-opencl-icd)
ldconfig -p 2>/dev/null | grep libOpenCL.so.1 >/dev/null || opencl+=(ocl-icd-libopencl1)
decoder=()
[ "${1:-}" != peers ] || ldconfig -p 2>/dev/null | grep libavdevice.so >/dev/null || decoder+=(ffmpeg)
[ "$((${#missing[@]} + ${#browser[@]} + ${#opencl[@]} + ${#decoder[@]}))" -eq 0 ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  apt-get update -qq
  [ "${#missing[@]}" -eq 0 ] || apt-get install -y -qq --no-install-recommends "${missing[@]}"
  [ "${#browser[@]}" -eq 0 ] || apt-get install -y -qq --no-install-recommends "${browser[@]}" ||
    echo "codedag: Chromium could not be installed: the tests of the report page are skipped." >&2
  [ "${#opencl[@]}" -eq 0 ] || apt-get install -y -qq --no-install-recommends "${opencl[@]}" ||
    echo "codedag: PoCL could not be installed: the tests of an OpenCL device are skipped." >&2
  [ "${#decoder[@]}" -eq 0 ] || apt-get install -y -qq --no-install-recommends "${decoder[@]}" ||
    echo "codedag: FFmpeg could not be installed: SPDL's own decoder is left out." >&2
  exit 0
fi
if [ "${#missing[@]}" -ne 0 ]; then
  echo "codedag: missing system packages: ${missing[*]} (install them as root, e.g. apt-get install ${missing[*]})." >&2
  echo "codedag: going on without a C compiler: the plain-Python twin and numba/numpy kernels will be used." >&2
fi
if [ "${#browser[@]}" -ne 0 ]; then
  echo "codedag: there is no Chromium (apt-get install chromium): the tests of the report page are skipped." >&2
fi
if [ "${#opencl[@]}" -ne 0 ]; then
  echo "codedag: there is no OpenCL driver (apt-get install ${opencl[*]}): the tests of an OpenCL device are skipped." >&2
fi
if [ "${#decoder[@]}" -ne 0 ]; then
  echo "codedag: there is no FFmpeg (apt-get install ffmpeg): SPDL's own decoder is left out." >&2
fi
