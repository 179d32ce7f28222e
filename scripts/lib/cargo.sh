# shellcheck shell=bash disable=SC2034 # the scripts that source this use its variables
# Rust: the host's cargo if it is new enough and has a linker, otherwise the private root's (Debian 13's own).
# HAMLYN_RUST=host or HAMLYN_RUST=root decides by hand.

TARGET=x86_64-unknown-linux-gnu
BINARIES=$REPO/target/$TARGET/release
# The scripts know where the programs are, and how those of the guest are linked: the person's own settings do not apply.
export CARGO_TARGET_DIR=$REPO/target
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_TARGET

# choose_rust: set HAMLYN_RUST to host or root, for this script and those that it starts.
choose_rust() {
    case ${HAMLYN_RUST:-auto} in
    host | root) ;;
    auto) if host_rust_will_do; then HAMLYN_RUST=host; else HAMLYN_RUST=root; fi ;;
    *) die "HAMLYN_RUST is '$HAMLYN_RUST'" "it may be: host, root, auto" ;;
    esac
    export HAMLYN_RUST
}

host_rust_will_do() {
    local version
    version=$(cargo --version 2>/dev/null | sed -n 's/^cargo \([0-9]*\.[0-9]*\).*/\1/p') && [[ $version ]] || return 1
    [[ $(printf '%s\n' 1.85 "$version" | sort -V | head -n 1) == 1.85 ]] || return 1
    [[ $(cc -print-file-name=libc.a 2>/dev/null) == /* ]]
}

# hamlyn_cargo ARGUMENT...: cargo, whichever it is.
hamlyn_cargo() {
    if [[ $HAMLYN_RUST == host ]]; then
        cargo "$@"
        return
    fi
    local home=${CARGO_HOME:-${HOME:-}/.cargo}
    if [[ ! -w $home ]]; then home=$CACHE/cargo && mkdir -p "$home"; fi
    IN_ROOT_BINDS="$home /etc/resolv.conf /etc/hosts /etc/ssl/certs /usr/share/ca-certificates /usr/local/share/ca-certificates /sys /run" \
        in_root CARGO_HOME="$home" HOME="$(dirname "$home")" cargo "$@"
}

choose_rust
