# shellcheck shell=bash
# drgn, which reads dumps of machines with the debug kernel: fetched when it is first wanted, into a folder of its own.

DRGN=$CACHE/drgn

prepare_drgn() {
    if [[ ! -x $DRGN/usr/bin/python3 ]]; then
        step index "package index from the machine's mirror" fetch_index
        step fetch-drgn "fetch drgn" own_apt_get install --yes --download-only python3-drgn
        step unpack-drgn "unpack it" unpack_drgn
    fi
    make_symbols "$OWN_KERNEL/vmlinux"
    make_symbols "$MODULE"
}

unpack_drgn() {
    local package
    rm -rf "$DRGN" "$DRGN.partial"
    mkdir -p "$DRGN.partial/symbols"
    for package in "$CACHE"/apt/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" |
            tar -x -C "$DRGN.partial" --no-same-owner --exclude="./usr/share/"{doc,man,locale}
    done
    mv "$DRGN.partial" "$DRGN"
    rm -rf "$CACHE/apt"
}

# make_symbols FILE: copy a file with symbols, without the sum over the kernel's header of its unwinding tables. Debian's drgn
# 0.0.31 knows the sums of older kernels only, and refuses others, though the tables are as they were in Linux 6.4.
make_symbols() {
    local copy=$DRGN/symbols/${1##*/}
    if newer "$copy" "$1"; then return; fi
    root_run objcopy --rename-section .orc_header=.orc_header.unused "$1" "$copy.partial"
    mv "$copy.partial" "$copy"
}

# run_drgn ARGUMENT...: with its own loader and libraries, as the host's may be older.
run_drgn() {
    local libraries=$DRGN/usr/lib/x86_64-linux-gnu
    PYTHONHOME=$DRGN/usr PYTHONPATH=$DRGN/usr/lib/python3/dist-packages "$libraries/ld-linux-x86-64.so.2" \
        --library-path "$libraries" "$DRGN/usr/bin/python3" -m drgn "$@"
}
