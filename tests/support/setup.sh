# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by examples/run, tests/run and .ci/run. Finds the tools that a build needs, installs on Debian
# those that are missing, and configures build directories.
#   require TOOL...       tools of tool() below; returns with all of them there, or exits with 1
#   wish TOOL...          the same, but goes on without those that are not to be had
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
    mpi) check='has_mpi' packages='openmpi-bin libopenmpi-dev' ;;
    opencl) check='has_opencl' packages='ocl-icd-opencl-dev pocl-opencl-icd' ;;
    network) check='has_network' packages='iproute2 util-linux' ;;
    32-bit) check='compiles gcc c -m32' packages='gcc-multilib' ;;
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

has_mpi() {
  command -v mpirun && { has_package ompi-c 4.0 || has_package mpich 3.0; }
}

has_opencl() {
  has_package OpenCL 1.2 && compgen -G '/etc/OpenCL/vendors/*.icd'
}

has_network() {
  local PATH=$PATH:/usr/sbin:/sbin # for users, they are not in it
  command -v ip && command -v tc && command -v nsenter
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

# obtain TOOL...: installs what is missing. Afterwards `missing` has what still is, and `packages_of_missing` what brings
# it; `why` says in words why nothing was installed, or is empty.
obtain() {
  local name check packages
  why=
  packages_of_missing=()
  find_missing "$@"
  [ ${#missing[@]} -gt 0 ] || return 0
  for name in "${missing[@]}"; do
    tool "$name"
    # shellcheck disable=SC2206 # packages is a list of words
    packages_of_missing+=($packages)
  done

  if [ ! -e /etc/debian_version ] || ! command -v apt-get > /dev/null; then
    why='Please install them and call this again.'
    return 0
  fi
  if [ ${#as_root[@]} -gt 0 ] && ! command -v sudo > /dev/null; then
    why='Please run apt-get install as root and call this again.'
    return 0
  fi
  echo "Installing with apt-get: ${packages_of_missing[*]}"
  apt update || echo "apt-get update failed; going on with the package lists that are there"
  apt install -y --no-install-recommends --no-remove "${packages_of_missing[@]}" || true
  hash -r
  find_missing "$@"
}

require() {
  local missing why packages_of_missing
  obtain "$@"
  [ ${#missing[@]} -gt 0 ] || return 0
  echo "Missing here, or too old: ${missing[*]}. $why"
  echo "They are what these Debian packages bring: ${packages_of_missing[*]}"
  exit 1
}

wish() {
  local missing why packages_of_missing
  obtain "$@"
  [ ${#missing[@]} -eq 0 ] ||
    echo "Without ${missing[*]} (Debian: ${packages_of_missing[*]}) what needs them is left out."
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
