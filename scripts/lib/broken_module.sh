#!/usr/bin/env bash
# Called by the check of deliberate breaks, in a copy of the repository: build the kernel module of the copy, and a kit in FOLDER whose guests
# load it. All other parts are those of the repository's kit.
#
#   HAMLYN_CACHE=CACHE broken_module.sh FOLDER REPOSITORY
source "$(dirname "$0")/all.sh"
FOLDER=$1 BINARIES=$2/target/$TARGET/release
ORIGINAL=$GUEST/initrd.img
mkdir -p "$FOLDER/tree/lib"
# Objects beside those of the repository's module, made anew only where a source differs.
GUEST_OF_KIT=$GUEST GUEST=$FOLDER MODULE=$FOLDER/hamlyn.ko
make_module
root_run strip --strip-debug -o "$FOLDER/tree/lib/hamlyn.ko" "$MODULE"
archive "$FOLDER/tree" "$FOLDER/module.cpio"
# What is unpacked later takes the place of what is there.
cat "$ORIGINAL" "$FOLDER/module.cpio" >"$FOLDER/initrd.img"
GUEST=$GUEST_OF_KIT
write_kit "$FOLDER/kit.json" "$FOLDER/initrd.img"
