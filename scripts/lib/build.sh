# shellcheck shell=bash
# What is built from this repository: programs, kernel module, guest image; and the kit that names the parts.

# prepare_qemu: one path to a QEMU that can load our card, wherever it comes from.
prepare_qemu() {
    local qemu=$CACHE/bin/qemu-system-x86_64 wanted
    wanted=$(qemu_wrapper)
    if [[ -x $qemu && $(<"$qemu") == "$wanted" ]]; then return; fi
    printf '%s\n' "$wanted" >"$qemu.partial"
    chmod +x "$qemu.partial"
    mv "$qemu.partial" "$qemu"
    step qemu "check QEMU" check_qemu
}

qemu_wrapper() {
    local host
    host=$(host_qemu)
    if [[ $host ]]; then
        printf '#!/bin/sh\nexec "%s" "$@"\n' "$host"
        return
    fi
    cat <<EOF
#!/bin/sh
# QEMU of the private root beside this file's folder, with its own loader and libraries: the host's may be older.
root=\$(dirname "\$(dirname "\$(readlink -f "\$0")")")/root
export QEMU_MODULE_DIR="\$root/usr/lib/x86_64-linux-gnu/qemu"
exec "\$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "\$root/usr/lib/x86_64-linux-gnu" \\
    "\$root/usr/bin/qemu-system-x86_64" -L "\$root/usr/share/qemu" -L "\$root/usr/share/seabios" "\$@"
EOF
}

check_qemu() {
    "$CACHE/bin/qemu-system-x86_64" --version
    "$CACHE/bin/qemu-system-x86_64" -device help | grep '"vfio-user-pci"' ||
        die "this QEMU has no vfio-user-pci device" "QEMU 10.1 or newer is needed"
}

# build_all: bring everything made from the sources up to date, and name it in the kit. With DEMO set, no more than the demo
# shows and `hamlyn up` names; but once there is more, that is kept up to date as well.
build_all() {
    if [[ -e $CACHE/whole ]]; then DEMO=; fi
    step programs "build the programs" build_programs
    if [[ ! $DEMO ]]; then build_c_examples; fi
    if [[ ! $DEMO ]]; then step preloaded "build the libraries for unmodified programs" build_for_programs; fi
    if [[ ! $DEMO || $PLUGIN || -e $BINARIES/libhamlyn_snoop.so ]]; then
        step plugin "build the plugin for QEMU" build_plugin
    fi
    build_module
    build_image
    write_kit
    if [[ $HAMLYN_KERNEL == debug ]]; then write_kit "$CACHE/kit-kmemleak.json" "$GUEST/initrd.img" kmemleak=on; fi
    if [[ ! $DEMO ]]; then touch "$CACHE/whole"; fi
}

# They are static, so they run on any host and in the guest's bare image. One invocation builds shared dependencies once.
build_programs() {
    local what=(-p hamlyn-c -p hamlyn-sim -p hamlyn-test-guest --lib --examples)
    if [[ $DEMO ]]; then
        what=(--no-default-features --example ping-pong --example transfer --example intrude --example self-test)
    fi
    # Who wants the plugin names a model, which may be any.
    if [[ $DEMO && $PLUGIN ]]; then what=(--example echo-card --example shrimp --example clan --example dart); fi
    CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C target-feature=+crt-static" \
        hamlyn_cargo build --release --target "$TARGET" -p hamlyn-cli -p hamlyn-agent -p hamlyn-tools -p hamlyn-examples --bins \
        "${what[@]}"
    mkdir -p target/release
    ln -sf "../$TARGET/release/hamlyn" target/release/hamlyn
}

# build_plugin: what QEMU loads to tell a card of its machine's stores. A library that is loaded cannot be static, so it is not
# built with the flags of the programs; but it lies beside them.
build_plugin() {
    hamlyn_cargo build --release -p hamlyn-snoop-plugin
    mkdir -p "$BINARIES"
    ln -sf ../../release/libhamlyn_snoop_plugin.so "$BINARIES/libhamlyn_snoop.so"
}

# build_for_programs: what unmodified programs load in machines with Debian's packages: by libfabric, and by hamlyn-run.
PROVIDER=$BINARIES/libhamlyn-fi.so
SOCKETS=$BINARIES/libhamlyn-sockets.so
build_for_programs() {
    hamlyn_cargo build --release -p hamlyn-fi -p hamlyn-sockets
    ln -sf ../../release/libhamlyn_fi.so "$PROVIDER"
    ln -sf ../../release/libhamlyn_sockets.so "$SOCKETS"
}

# build_installed: what scripts/install installs, as build_programs builds it.
build_installed() {
    CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C target-feature=+crt-static" \
        hamlyn_cargo build --release --target "$TARGET" -p hamlyn-cli -p hamlyn-sim -p hamlyn-tools \
        -p hamlyn-headers -p hamlyn-manuals --bins
}

# The names that the guest's tools are started by; they are one program, hamlyn-tools.
# shellcheck disable=SC2034 # for scripts/install and images/build
TOOLS=(hamlyn-info hamlyn-ping hamlyn-perf)
C_EXAMPLES=$CACHE/guest/c

# The C library's headers.
INCLUDE=$CACHE/include

# make_headers FOLDER: write the C library's headers there, made from its sources.
make_headers() { hamlyn_cargo run -p hamlyn-headers -- "$1"; }

# build_c_examples: the library's examples in C and the tests' programs, as static as the other programs of the guest.
build_c_examples() {
    local source program
    if ! newer "$INCLUDE/hamlyn.h" guest-lib/c/src guest-lib/c/include scripts/headers; then
        step headers "make the C library's headers" make_headers "$INCLUDE"
    fi
    for source in guest-lib/c/examples/*.c tests/guest/c/*.c; do
        program=$(basename "$source" .c)
        if newer "$C_EXAMPLES/$program" guest-lib/c/examples tests/guest/c "$INCLUDE" guest-lib/c/hamlyn.pc \
            "$BINARIES/libhamlyn_c.a"; then continue; fi
        step "$program" "build $program, in C" make_c_example "$source" "$C_EXAMPLES/$program"
    done
}

# With the libraries that pkg-config would name, so that what guest-lib/c/hamlyn.pc says of static programs is tried each time.
make_c_example() {
    local libraries
    libraries=$(sed -n "s/^Libs.private: //p" guest-lib/c/hamlyn.pc)
    mkdir -p "$C_EXAMPLES"
    # shellcheck disable=SC2086 # several words
    in_root gcc -std=c11 -O2 -Wall -Wextra -Werror -static -Wl,--gc-sections -I "$INCLUDE" -I "$REPO/guest-lib/c/examples" \
        "$REPO/$1" "$BINARIES/libhamlyn_c.a" $libraries -o "$2"
}

MODULE=$GUEST/hamlyn.ko
# The network device over it. It is built and replaced with the module, and before it.
NET_MODULE=$GUEST/hamlyn-net.ko
# Files that change with the guests' kernel: what is older than one of them is built again.
KERNEL_STAMPS=("$ROOT/packages")
if has_own_kernel; then KERNEL_STAMPS+=("$ROOT/$HAMLYN_KERNEL-kernel"); fi

build_module() {
    if [[ ! -e guest-driver/Makefile && ! -e guest-driver/Kbuild ]]; then return; fi
    if newer "$MODULE" guest-driver "${KERNEL_STAMPS[@]}"; then return; fi
    step module "build the kernel module" make_module
}

# copy_module FOLDER: the module's sources, to build them there: the sources' folder stays clean. Files that a plain "make" left
# in it do no harm.
copy_module() {
    # A source that is gone must not be left.
    find "$1" -name '*.[ch]' ! -name '*.mod.c' -delete
    (cd guest-driver && find . \( -name '*.[ch]' ! -name '*.mod.c' -o -name Makefile -o -name Kbuild \) \
        -exec cp -p --parents -t "$1" {} +)
}

# in_kernel FOLDER ARGUMENT...: build the module's sources there, for the guests' kernel.
in_kernel() { in_root make -C "/usr/lib/modules/$(kernel_version)/build" M="$1" -j "$(nproc)" "${@:2}" modules; }

# Arguments of the module's build.
MODULE_ARGUMENTS=()
make_module() {
    local objects
    objects=$GUEST/module/$(kernel_version)
    # make does not notice that the kernel's configuration has changed, and with it the kernel's structures.
    if ! newer "$objects/started" "${KERNEL_STAMPS[@]}"; then rm -rf "$objects"; fi
    mkdir -p "$objects"
    touch "$objects/started"
    copy_module "$objects"
    in_kernel "$objects" "${MODULE_ARGUMENTS[@]}"
    if [[ -e $objects/hamlyn-net.ko ]]; then cp "$objects/hamlyn-net.ko" "$NET_MODULE"; fi
    cp "$objects/hamlyn.ko" "$MODULE.partial"
    # The module gets the time at which the build began: a source that was edited meanwhile is newer.
    touch -r "$objects/started" "$MODULE.partial"
    mv "$MODULE.partial" "$MODULE"
}

# make_module_in FOLDER: build the module in FOLDER and not beside the guests' kernel. make builds only the objects whose sources
# changed.
make_module_in() {
    local GUEST=$1 MODULE=$1/hamlyn.ko NET_MODULE=$1/hamlyn-net.ko
    make_module
}

# make_kit_in FOLDER: make an image whose guests load the module in FOLDER, and a kit with both, there. All other parts are those
# of the kit.
make_kit_in() {
    local folder=$1 MODULE=$1/hamlyn.ko
    mkdir -p "$folder/tree/lib"
    root_run strip --strip-debug -o "$folder/tree/lib/hamlyn.ko" "$MODULE"
    archive "$folder/tree" "$folder/module.cpio"
    # The kernel unpacks the second archive over the first, so this module replaces the image's.
    cat "$GUEST/initrd.img" "$folder/module.cpio" >"$folder/initrd.img"
    write_kit "$folder/kit.json" "$folder/initrd.img"
}

# check_module: compile the module with warnings of the kernel's level 1, and check it with sparse. Either fails on a warning.
check_module() {
    local objects=$GUEST/sparse sources
    rm -rf "$objects"
    mkdir -p "$objects"
    copy_module "$objects"
    # Not C=2, which needs a script that is not in Debian's headers.
    in_kernel "$objects" W=1 KCFLAGS=-Werror KBUILD_CHECKSRC=2 CHECK=sparse \
        CF="-Wsparse-error -D__CHECK_ENDIAN__ -include $REPO/scripts/lib/sparse.h" >"$objects/log" || {
        cat "$objects/log"
        return 1
    }
    sources=$(find guest-driver/*/ -name '*.c' ! -path 'guest-driver/host/*' | wc -l)
    (($(grep -c '^  CHECK ' "$objects/log") == sources)) || die "sparse has not seen all $sources sources: $objects/log"
}

build_image() { "$REPO/images/build"; }

# archive FOLDER FILE: a cpio archive of FOLDER, owned by root. Not compressed: unpacking costs a guest more than loading.
archive() {
    # Whatever the umask here: everyone in the guest may read and start what is in it.
    chmod -R u=rwX,go=rX "$1"
    (cd "$1" && find . -mindepth 1 | LC_ALL=C sort | root_run cpio --quiet -o -H newc -R +0:+0 --reproducible) >"$2.partial"
    mv "$2.partial" "$2"
}

# What a kernel that looks for errors has for its own accounts, in MiB.
extra_memory() { if has_own_kernel; then echo 640; else echo 0; fi; }

# The file that machines boot. KASAN's code runs before its memory is there if a machine enters the uncompressed kernel directly.
kernel_file() { if has_own_kernel; then echo "$GUEST/vmlinuz"; else echo "$GUEST/vmlinux"; fi; }

# Print the kit's "host" for a kernel that looks for errors: long time-outs, and four levels of page tables (a fifth level takes
# a fifth of its speed). Data races need two processors.
kit_host() {
    local processors
    if ! has_own_kernel; then return; fi
    if [[ $HAMLYN_KERNEL == kcsan ]]; then processors=2; else processors=1; fi
    printf ',\n  "host": { "kernel_args": "no5lvl %s", "processors": %s, "patience_s": 900, "handshake_ms": 60000 }' "$1" "$processors"
}

# write_kit [FILE IMAGE [KERNEL_ARGS]]: name the parts relative to the file's folder, so that a copy of the tree uses its own parts.
write_kit() {
    local kit=${1:-$KIT} image=${2:-$GUEST/initrd.img}
    part() { realpath -m --relative-to="$(dirname "$kit")" "$1"; }
    cat >"$kit.partial" <<EOF
{
  "qemu": "$(part "$CACHE/bin/qemu-system-x86_64")",
  "kernel": "$(part "$(kernel_file)")",
  "initrd": "$(part "$image")",
  "disk": "$(part "$GUEST/programs.img")",
  "module": "$(part "$MODULE")",
  "packages": "$(part "$REPO/images/packages")",
  "programs": "$(part "$BINARIES")",
  "extra_memory": $(extra_memory)$(kit_host "${3:-}")
}
EOF
    mv "$kit.partial" "$kit"
}
