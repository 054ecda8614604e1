# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by examples/run, tests/run and .ci/run. Finds the tools that a build needs, installs on Debian
# those that are missing, and configures build directories.
#   require TOOL...       tools of tool() below; returns with all of them there, or exits with 1
#   configure DIR OPT...  sets up DIR (relative to the project), or brings an earlier one into line
#   build DIR [TARGET...] compiles there; prints nothing unless that fails
# Expects $root, the project's directory.
: "${root:?}"

# The program, a test that it is there and does, and the Debian packages that bring it.
# Sets check and packages; `check` is run with its output discarded.
tool() {
  case $1 in
    cc) check="compiles ${CC:-cc} c" packages='gcc libc6-dev' ;;
    c++) check="compiles ${CXX:-c++} c++" packages='g++' ;;
    clang) check='compiles clang c' packages='clang libc6-dev' ;;
    clang-sanitizers) check='compiles clang c -fsanitize=thread' packages='clang libclang-rt-dev' ;;
    clang-format) check='clang-format --version' packages='clang-format' ;;
    meson) check='has_meson 1.0' packages='meson' ;;
    ninja) check='ninja --version' packages='ninja-build' ;;
    pkg-config) check='pkg-config --version' packages='pkg-config' ;;
    libuv) check='has_package libuv 1.44.2' packages='libuv1-dev' ;;
    cmocka) check='has_package cmocka 1.1.5' packages='libcmocka-dev' ;;
    nm) check='nm --version' packages='binutils' ;;
    cmake) check='cmake --version' packages='cmake make' ;;
    *) echo "$0: unknown tool $1" >&2; exit 1 ;;
  esac
}

# compiles COMPILER LANGUAGE [FLAG...]: can it build and link a program?
compiles() {
  echo '#include <stdlib.h>
int main(void) { return EXIT_SUCCESS; }' | "$1" -x "$2" "${@:3}" -o /dev/null -
}

# has_package NAME VERSION: does pkg-config know it, that new?
has_package() {
  pkg-config --exists "$1 >= $2"
}

# has_meson VERSION: is Meson there, that new?
has_meson() {
  local found
  found=$(meson --version) && printf '%s\n' "$1" "$found" | sort -CV
}

# The tools among the arguments that are not there, into `missing`.
find_missing() {
  local name check packages
  missing=()
  for name; do
    tool "$name"
    $check > /dev/null 2>&1 < /dev/null || missing+=("$name")
  done
}

# quietly COMMAND...: shows what it printed only if it fails.
quietly() {
  local output
  output=$("$@" 2>&1 < /dev/null) && return 0
  printf '%s\n' "$output"
  return 1
}

as_root=()
if [ "$(id -u)" != 0 ]; then
  as_root=(sudo)
  [ -t 0 ] || as_root=(sudo -n) # nobody is there to type a password
fi

apt() {
  quietly "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 "$@"
}

require() {
  local name check packages wanted=()
  find_missing "$@"
  [ ${#missing[@]} -gt 0 ] || return 0
  for name in "${missing[@]}"; do
    tool "$name"
    # shellcheck disable=SC2206 # packages is a list of words
    wanted+=($packages)
  done

  if [ ! -e /etc/debian_version ] || ! command -v apt-get > /dev/null; then
    echo "Missing here: ${missing[*]}. Please install them and call this again."
    echo "They are what these Debian packages bring: ${wanted[*]}"
    exit 1
  fi
  if [ ${#as_root[@]} -gt 0 ] && ! command -v sudo > /dev/null; then
    echo "Missing here: ${missing[*]}. Please run this as root and call me again:"
    echo "  apt-get install ${wanted[*]}"
    exit 1
  fi
  echo "Installing with apt-get: ${wanted[*]}"
  apt update || echo "apt-get update failed; going on with the package lists that are there"
  apt install -y --no-install-recommends "${wanted[@]}" || true
  hash -r
  find_missing "$@"
  if [ ${#missing[@]} -gt 0 ]; then
    echo "Still missing, or too old: ${missing[*]}. Debian's packages were to be: ${wanted[*]}"
    exit 1
  fi
}

configure() {
  local dir=$root/$1
  shift
  if [ -e "$dir/meson-private/coredata.dat" ]; then
    meson setup "$dir" "$root" --reconfigure "$@" > /dev/null 2>&1 < /dev/null && return 0
    set -- --wipe "$@" # it is of another version of Meson, or was moved
  fi
  quietly meson setup "$dir" "$root" "$@"
}

build() {
  quietly ninja -C "$root/$1" "${@:2}" | sed '/^\[[0-9]*\/[0-9]*\] /d' # without the lines of progress
  return "${PIPESTATUS[0]}"
}
