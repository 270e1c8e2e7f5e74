# Sourced by the other scripts: where things are.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Where cargo puts what it builds, whatever the current directory is.
target=${CARGO_TARGET_DIR:-$root/target}
case $target in
/*) ;;
*) target=$PWD/$target ;;
esac
export CARGO_TARGET_DIR=$target

# Where node and ctl are. CONCLAVE_BIN names a directory that already has them, so that nothing is built.
bin=${CONCLAVE_BIN:-$target/release}

say() {
    printf '%s\n' "$*" >&2
}

die() {
    say "${0##*/}: $*"
    exit 1
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# Builds with these arguments of cargo, unless CONCLAVE_BIN is set. Cargo itself knows whether there is anything to do, and shows its
# progress the first time: where the program, the first argument, is missing. The second argument says what is built.
compile() {
    local program=$1 what=$2 quiet=(--quiet)
    shift 2
    [[ -z ${CONCLAVE_BIN:-} ]] || return 0
    if ! has cargo; then
        [[ -x $program ]] || die "cargo is not installed: see rust-lang.org/tools/install, then try again"
        return
    fi
    if [[ ! -x $program ]]; then
        say "Building $what ..."
        quiet=()
    fi
    cargo build --manifest-path "$root/Cargo.toml" "${quiet[@]}" "$@"
}

build() {
    compile "$bin/ctl" "node and ctl (the first time takes about five minutes on two cores)" --release -p node -p ctl
}
