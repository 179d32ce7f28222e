# shellcheck shell=bash
# The kernels of the tests that look for errors of the driver, debug and kcsan: Debian's kernel source of the backports, with
# images/guest.config and images/$HAMLYN_KERNEL.config, each built once and kept. They lie in the private root beside the others,
# so module and image are made for them in the same way.

OWN_KERNELS=$CACHE/kernels
KERNEL_SOURCE=$OWN_KERNELS/source
# The folder in which this one is built.
OWN_KERNEL=$OWN_KERNELS/$HAMLYN_KERNEL

# Whether the guests have one of them.
has_own_kernel() { [[ $HAMLYN_KERNEL == @(debug|kcsan) ]]; }

# Only the tests ask for it.
prepare_own_kernel() {
    # The tools go with the root when that is made anew.
    if [[ ! -e $OWN_KERNELS/fetched || ! -x $ROOT/usr/bin/flex ]]; then
        step index "package index from the machine's mirror" fetch_index
        step fetch-source "fetch the kernel's source" fetch_kernel_source
        step unpack-source "unpack it" unpack_kernel_source
    fi
    if newer "$ROOT/$HAMLYN_KERNEL-kernel" images/guest.config "images/$HAMLYN_KERNEL.config" "$OWN_KERNELS/fetched"; then return; fi
    step own-kernel "build the kernel: $HAMLYN_KERNEL" build_own_kernel
}

# The source of the kernel that the guests have, and what its build needs beside what is in the root.
fetch_kernel_source() {
    local series version
    version=$(HAMLYN_KERNEL=backports kernel_version)
    series=$(cut -d. -f1,2 <<<"$version")
    own_apt_get install --yes --download-only "linux-source-$series" bc bison flex libelf-dev perl
}

unpack_kernel_source() {
    local package
    for package in "$CACHE"/apt/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" |
            tar -x -C "$ROOT" --keep-directory-symlink --no-same-owner --exclude="./usr/share/"{doc,man,locale}
    done
    rm -rf "$OWN_KERNELS"
    mkdir -p "$KERNEL_SOURCE"
    "$ROOT/usr/bin/busybox" xz -dc "$ROOT"/usr/src/linux-source-*.tar.xz |
        tar -x -C "$KERNEL_SOURCE" --no-same-owner --strip-components=1
    rm -f "$ROOT"/usr/src/linux-source-*.tar.xz
    touch "$OWN_KERNELS/fetched"
    rm -rf "$CACHE/apt"
}

build_own_kernel() {
    local release folder wanted=$OWN_KERNELS/$HAMLYN_KERNEL.config
    rm -f "$ROOT/$HAMLYN_KERNEL-kernel"
    mkdir -p "$OWN_KERNEL"
    cat images/guest.config "images/$HAMLYN_KERNEL.config" >"$wanted"
    in_root make -C "$KERNEL_SOURCE" O="$OWN_KERNEL" KCONFIG_ALLCONFIG="$wanted" allnoconfig
    missing_options "$wanted"
    in_root nice -n "${HAMLYN_NICE:-0}" make -C "$OWN_KERNEL" -j "$(nproc)" bzImage modules
    release=$(<"$OWN_KERNEL/include/config/kernel.release")
    folder=$ROOT/usr/lib/modules/$release
    mkdir -p "$folder"
    cp "$OWN_KERNEL/arch/x86/boot/bzImage" "$folder/vmlinuz"
    ln -sfn "$OWN_KERNEL" "$folder/build"
    # Only the module under test is not built in; images/build wants the lists nevertheless.
    mkdir -p "$folder/kernel"
    cp "$OWN_KERNEL"/modules.{order,builtin,builtin.modinfo} "$folder/"
    echo "$release" >"$ROOT/$HAMLYN_KERNEL-kernel"
}

# missing_options FILE: an option that its dependencies have switched off would leave a check out without a word.
missing_options() {
    local option missing=()
    while read -r option; do
        case $option in
        CONFIG_*=n) if ! grep -q "^${option%=n}=" "$OWN_KERNEL/.config"; then continue; fi ;;
        CONFIG_*) if grep -qxF "$option" "$OWN_KERNEL/.config"; then continue; fi ;;
        *) continue ;;
        esac
        missing+=("$option")
    done <"$1"
    if ((${#missing[@]})); then die "the kernel's configuration does not take: ${missing[*]}"; fi
}
