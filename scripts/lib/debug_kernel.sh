# shellcheck shell=bash
# The debug kernel of the tests: Debian's kernel source of the backports, with images/debug.config, built once and kept. It lies in the
# private root beside the others, so module and image are made for it in the same way.

DEBUG_KERNEL=$CACHE/debug-kernel

# Only the tests ask for it.
prepare_debug_kernel() {
    # The tools go with the root when that is made anew.
    if [[ ! -e $DEBUG_KERNEL/fetched || ! -x $ROOT/usr/bin/flex ]]; then
        step index "package index from the machine's mirror" fetch_index
        step fetch-debug "fetch the kernel's source" fetch_debug_kernel
        step unpack-debug "unpack it" unpack_debug_kernel
    fi
    if newer "$ROOT/debug-kernel" images/debug.config "$DEBUG_KERNEL/fetched"; then return; fi
    step debug-kernel "build the debug kernel" build_debug_kernel
}

# The source of the kernel that the guests have, and what its build needs beside what is in the root.
fetch_debug_kernel() {
    local series version
    version=$(HAMLYN_KERNEL=backports kernel_version)
    series=$(cut -d. -f1,2 <<<"$version")
    own_apt_get install --yes --download-only "linux-source-$series" bc bison flex libelf-dev perl
}

unpack_debug_kernel() {
    local package
    for package in "$CACHE"/apt/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" |
            tar -x -C "$ROOT" --keep-directory-symlink --no-same-owner --exclude="./usr/share/"{doc,man,locale}
    done
    rm -rf "$DEBUG_KERNEL"
    mkdir -p "$DEBUG_KERNEL/source"
    "$ROOT/usr/bin/busybox" xz -dc "$ROOT"/usr/src/linux-source-*.tar.xz |
        tar -x -C "$DEBUG_KERNEL/source" --no-same-owner --strip-components=1
    rm -f "$ROOT"/usr/src/linux-source-*.tar.xz
    touch "$DEBUG_KERNEL/fetched"
    rm -rf "$CACHE/apt"
}

build_debug_kernel() {
    local source=$DEBUG_KERNEL/source release folder
    rm -f "$ROOT/debug-kernel"
    in_root make -C "$source" KCONFIG_ALLCONFIG="$REPO/images/debug.config" allnoconfig
    missing_options
    in_root nice -n "${HAMLYN_NICE:-0}" make -C "$source" -j "$(nproc)" bzImage modules
    release=$(<"$source/include/config/kernel.release")
    folder=$ROOT/usr/lib/modules/$release
    mkdir -p "$folder"
    cp "$source/arch/x86/boot/bzImage" "$folder/vmlinuz"
    ln -sfn "$source" "$folder/build"
    # Only the module under test is not built in; images/build wants the lists nevertheless.
    mkdir -p "$folder/kernel"
    cp "$source"/modules.{order,builtin,builtin.modinfo} "$folder/"
    echo "$release" >"$ROOT/debug-kernel"
}

# An option that its dependencies have switched off would leave a watcher out without a word.
missing_options() {
    local option missing=()
    while read -r option; do
        case $option in
        CONFIG_*=n) if ! grep -q "^${option%=n}=" "$DEBUG_KERNEL/source/.config"; then continue; fi ;;
        CONFIG_*) if grep -qxF "$option" "$DEBUG_KERNEL/source/.config"; then continue; fi ;;
        *) continue ;;
        esac
        missing+=("$option")
    done <images/debug.config
    if ((${#missing[@]})); then die "the kernel's configuration does not take: ${missing[*]}"; fi
}
