# shellcheck shell=bash
# The private root: a folder of unpacked Debian packages (QEMU, a kernel with headers, for the tests others, a C
# compiler, and Rust when the host's will not do). Apt resolves, fetches and verifies them into folders of our own, so that making the root
# needs no privileges, no mounts and no packages on the host.

SUITE=trixie
BACKPORTS=trixie-backports

# The packages that this host needs in its private root.
wanted_packages() {
    echo linux-image-cloud-amd64 linux-headers-cloud-amd64 gcc libc6-dev make kmod busybox-static cpio e2fsprogs \
        zstd dash coreutils sed grep findutils diffutils mawk
    if [[ ! $DEMO ]]; then echo shellcheck sparse libfabric-dev python3-pytest mdbook; fi
    # The machine of the tests under KVM has the root's, whatever the host's own can do.
    if [[ -z $(host_qemu) || ${HAMLYN_KVM:-} ]]; then echo qemu-system-x86; fi
    if [[ ! $DEMO || $IMAGES ]]; then echo mmdebstrap apt dpkg perl mount util-linux tar debian-archive-keyring; fi
    if [[ $HAMLYN_RUST == root ]]; then echo cargo rustc ca-certificates; fi
    if [[ $HAMLYN_RUST == root && ! $DEMO ]]; then echo rustfmt rust-clippy; fi
}

# The host's QEMU, if it has the device that loads our card.
host_qemu() {
    local qemu
    qemu=$(command -v qemu-system-x86_64) || return 0
    if "$qemu" -device help 2>/dev/null | grep -q '"vfio-user-pci"'; then echo "$qemu"; fi
}

# Whether the host has a Python that the package for Python runs on.
host_has_python() { python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# use_python: make python3 the private root's, with its own loader and libraries, if the host's will not do. Pytest is always
# the root's.
use_python() {
    export PYTHONPATH=$ROOT/usr/lib/python3/dist-packages
    if host_has_python; then return; fi
    cat >"$CACHE/bin/python3" <<EOF
#!/bin/sh
root=\$(dirname "\$(dirname "\$(readlink -f "\$0")")")/root
export PYTHONHOME="\$root/usr"
exec "\$root/usr/lib64/ld-linux-x86-64.so.2" --argv0 "\$0" --library-path "\$root/usr/lib/x86_64-linux-gnu" \\
    "\$root/usr/bin/python3" "\$@"
EOF
    chmod +x "$CACHE/bin/python3"
    PATH=$CACHE/bin:$PATH
}

prepare_root() {
    local missing
    [[ $(dpkg --print-architecture 2>/dev/null) == amd64 ]] ||
        die "this is not a Debian x86-64 machine" "the scripts prepare Debian 12 and 13; see docs/ for other machines"
    missing=$(comm -13 <(packages_in_root) <(wanted_packages | tr ' ' '\n' | sort -u))
    if [[ -z $missing ]]; then
        prepare_other_kernel
        return
    fi
    # Those already there stay: a switch between the host's Rust and the root's does not undo the other.
    mapfile -t wanted < <({ packages_in_root && wanted_packages | tr ' ' '\n'; } | sort -u)
    step index "package index from the machine's mirror" fetch_index
    step fetch "fetch Debian packages" own_apt_get install --yes --download-only "${wanted[@]}"
    step unpack "unpack the private root" unpack_root "${wanted[@]}"
    prepare_other_kernel
}

prepare_other_kernel() {
    case $HAMLYN_KERNEL in
    stable) prepare_second_kernel "Debian 13's own kernel" ;;
    generic) prepare_second_kernel "the kernel for any machine" ;;
    debug | kcsan) prepare_own_kernel ;;
    esac
}

packages_in_root() { cat "$ROOT/packages" 2>/dev/null || true; }

# prepare_second_kernel NAME: Debian 13's own kernel, or that of backports for any machine, and its
# headers into the root, beside those of backports for clouds. Only the tests ask for it.
prepare_second_kernel() {
    if [[ -e $ROOT/$HAMLYN_KERNEL-kernel ]]; then return; fi
    step index "package index from the machine's mirror" fetch_index
    step "fetch-$HAMLYN_KERNEL" "fetch $1" fetch_second_kernel
    step "unpack-$HAMLYN_KERNEL" "unpack it" unpack_second_kernel
}

own_apt_cache() { APT_CONFIG=$CACHE/apt/apt.conf apt-cache "$@"; }

# second_kernel SERIES FLAVOUR: version and build of the newest kernel of a series (a regular
# expression): 6.12.94+deb13
second_kernel() {
    own_apt_cache pkgnames linux-image- | sed -n "s/^linux-image-\($1\.[0-9.]*+[a-z0-9]*\)-$2\$/\1/p" | sort -V | tail -n 1
}

# Its own packages and no others: what they need to be built against is in the root. Newer kernels
# are in several packages.
fetch_second_kernel() {
    local version own series='6\.12' flavour=cloud-amd64
    if [[ $HAMLYN_KERNEL == generic ]]; then series='[0-9]*' flavour=amd64; fi
    version=$(second_kernel "$series" "$flavour")
    [[ $version ]] || die "the mirror has no kernel $series for $flavour in $SUITE"
    rm -rf "$CACHE/apt/second"
    mkdir -p "$CACHE/apt/second"
    cd "$CACHE/apt/second" || return
    mapfile -t own < <(own_apt_cache pkgnames linux- |
        grep -xF "$(printf "linux-%s-$version-$flavour\n" image base binary modules headers)")
    own_apt_get download "${own[@]}" "linux-headers-$version-common" "linux-kbuild-$version"
    echo "$version-$flavour" >version
}

unpack_second_kernel() {
    local package
    for package in "$CACHE/apt/second"/*.deb; do
        dpkg-deb --fsys-tarfile "$package" |
            tar -x -C "$ROOT" --keep-directory-symlink --no-same-owner --exclude="./usr/share/"{doc,man,locale}
    done
    cp "$CACHE/apt/second/version" "$ROOT/$HAMLYN_KERNEL-kernel.partial"
    mv "$ROOT/$HAMLYN_KERNEL-kernel.partial" "$ROOT/$HAMLYN_KERNEL-kernel"
    rm -rf "$CACHE/apt"
}

# The mirrors that the machine's own apt uses, likeliest first, as apt itself reads its configuration.
own_mirrors() {
    env -u APT_CONFIG apt-get update --print-uris |
        sed -n "s|^'\(.*\)/dists/\([^']*\)/InRelease'.*|\2 \1|p" |
        awk '$1 ~ /-updates$/ { print 1, $2; next } $1 ~ /security/ { next } { print 2, $2 }' |
        sort -s -k1,1 | awk '!seen[$2]++ { print $2 }'
}

own_apt_get() { APT_CONFIG=$CACHE/apt/apt.conf apt-get "$@"; }

# configure_apt MIRROR: point apt at folders of our own; what the host's configuration says about fetching (proxies, ...) stays.
configure_apt() {
    local keyring apt=$CACHE/apt
    for keyring in /usr/share/keyrings/debian-archive-keyring.{gpg,pgp}; do
        if [[ -e $keyring ]]; then break; fi
    done
    [[ -e $keyring ]] || die "no keys to verify Debian's packages with" "install: debian-archive-keyring"
    mkdir -p "$apt"/{lists,archives}/partial
    : >"$apt/status" # nothing is installed yet
    cat >"$apt/preferences" <<EOF
Package: *
Pin: release n=$BACKPORTS
Pin-Priority: 600
EOF
    {
        env -u APT_CONFIG apt-config dump | grep '^Acquire::' || true
        cat <<EOF
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "$apt/preferences";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "$apt";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
APT::Architecture "amd64";
APT::Architectures { "amd64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "3";
EOF
    } >"$apt/apt.conf"
    printf "deb [signed-by=$keyring] %s main\n" "$1 $SUITE" "$1 $BACKPORTS" >"$apt/sources.list"
}

fetch_index() {
    local mirror mirrors
    mapfile -t mirrors < <(own_mirrors)
    ((${#mirrors[@]})) || die "apt on this machine knows no mirror" "add Debian's to /etc/apt/sources.list"
    for mirror in "${mirrors[@]}"; do
        configure_apt "$mirror"
        if own_apt_get update --error-on=any; then return; fi
    done
    die "no mirror of this machine's apt answers for $SUITE and $BACKPORTS" "check its network, or /etc/apt"
}

unpack_root() {
    local partial=$ROOT.partial dir
    # An earlier, interrupted fetch may have left versions that the mirror has replaced since.
    own_apt_get autoclean
    rm -rf "$partial"
    mkdir -p "$partial"/usr/{bin,sbin,lib,lib64}
    for dir in bin sbin lib lib64; do ln -s "usr/$dir" "$partial/$dir"; done
    # shellcheck disable=SC2016 # expanded by the inner shell
    printf '%s\0' "$CACHE"/apt/archives/*.deb | xargs -0 -P "$(nproc)" -I{} bash -o pipefail -c 'dpkg-deb --fsys-tarfile "$1" |
        tar -x -C "$2" --keep-directory-symlink --no-same-owner --exclude="./usr/share/"{doc,man,locale}' - {} "$partial"
    mkdir -p "$partial"/{proc,dev,tmp,etc,root}
    # What the packages' own scripts would have set up.
    ln -sf mawk "$partial/usr/bin/awk"
    ln -sf gcc "$partial/usr/bin/cc"
    if [[ -e $partial/usr/share/ca-certificates ]]; then
        mkdir -p "$partial/etc/ssl/certs"
        cat "$partial"/usr/share/ca-certificates/mozilla/*.crt >"$partial/etc/ssl/certs/ca-certificates.crt"
    fi
    printf '%s\n' "$@" | sort -u >"$partial/packages"
    rm -rf "$ROOT"
    mv "$partial" "$ROOT"
    rm -rf "$CACHE/apt"
}

# Of the guests' kernel. The root may have several.
kernel_version() {
    local version
    if [[ $HAMLYN_KERNEL != backports ]]; then
        cat "$ROOT/$HAMLYN_KERNEL-kernel"
        return
    fi
    for version in "$ROOT"/usr/lib/modules/*-cloud-amd64; do
        version=${version##*/}
        if [[ $version != 6.12.* ]]; then echo "$version"; fi
    done
}

# root_run PROGRAM ARGUMENT...: a program of the root, in the host's own file system.
# Its own loader and libraries come with it, so the host's libc may be older.
root_run() {
    "$ROOT/usr/lib64/ld-linux-x86-64.so.2" --library-path "$ROOT/usr/lib/x86_64-linux-gnu" "$ROOT/usr/bin/$1" "${@:2}"
}

# in_root COMMAND...: inside the root, with the repository and the cache at their usual paths.
# All mounts and processes live in namespaces of their own, so nothing is left behind however it ends.
# With IN_ROOT_USERS set, files may belong to any user there.
in_root() {
    local unshare=(unshare --mount --pid --fork --kill-child) owner='' user=(--user --map-root-user)
    local remedy="as root, allow them: sysctl -w kernel.unprivileged_userns_clone=1"
    if [[ ${IN_ROOT_USERS:-} ]]; then
        user+=(--map-auto)
        remedy="with a range of users for yours in /etc/subuid and /etc/subgid: install the package uidmap"
    fi
    if ((EUID)); then
        if unshare "${user[@]}" true 2>/dev/null; then
            unshare+=("${user[@]}")
        elif sudo -n true 2>/dev/null; then
            unshare=(sudo -n --preserve-env "${unshare[@]}")
            if [[ ! ${IN_ROOT_USERS:-} ]]; then owner=$EUID:$(id -g); fi
        else
            die "entering the private root needs user namespaces or sudo" "$remedy" "or run this as root"
        fi
    fi
    "${unshare[@]}" env ROOT="$ROOT" REPO="$REPO" CACHE="$CACHE" OWNER="$owner" \
        bash "$REPO/scripts/lib/enter.sh" "$@"
}
