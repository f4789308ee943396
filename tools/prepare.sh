# Sourced by demo.sh and test.sh: installs the packages of packages.txt and builds a preset.
# Both steps do nothing where nothing is left to do.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# oneDNN's OpenMP threads must not spin while the simulator's threads work; libgomp reads this before main().
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-PASSIVE}

say() { printf '\n== %s\n' "$*"; }

# install_packages [LIST...]: the packages of the lists (default: packages.txt).
install_packages() {
  local lists=("${@:-tools/packages.txt}") missing=() package
  while read -r package; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' || missing+=("$package")
  done < <(sed 's/#.*//' "${lists[@]}" | grep -v '^[[:space:]]*$')
  if [ ${#missing[@]} -eq 0 ]; then
    say "packages: all installed"
    return
  fi
  say "installing ${#missing[@]} packages: ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "packages are missing: run this as root, or install sudo" >&2; exit 1; }
    as_root=(sudo)
  fi
  # An installation that was cut off (a machine switched off, a snapshot taken meanwhile) is finished first: apt refuses
  # to go on before that.
  if [ -n "$(dpkg --audit)" ]; then
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive dpkg --configure -a || true
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --fix-broken
  fi
  "${as_root[@]}" apt-get update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}

# build PRESET [TARGET...]
build() {
  local preset=$1
  shift
  say "building (preset $preset)"
  cmake --preset "$preset" >/dev/null
  cmake --build --preset "$preset" ${1:+--target "$@"}
}
