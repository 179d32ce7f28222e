#!/usr/bin/env bash
# Build the kernel module of a copy of the repository, and a kit in FOLDER whose guests load it.
# All other parts are those of the repository's kit. The mutation check runs this in its copy.
#
#   HAMLYN_CACHE=CACHE broken_module.sh FOLDER REPOSITORY
source "$(dirname "$0")/all.sh"
FOLDER=$1 BINARIES=$2/target/$TARGET/release
ORIGINAL=$GUEST/initrd.img
mkdir -p "$FOLDER/tree/lib"
# make rebuilds only the objects whose sources changed.
GUEST_OF_KIT=$GUEST GUEST=$FOLDER MODULE=$FOLDER/hamlyn.ko
make_module
root_run strip --strip-debug -o "$FOLDER/tree/lib/hamlyn.ko" "$MODULE"
archive "$FOLDER/tree" "$FOLDER/module.cpio"
# The kernel unpacks the second archive over the first, so this module replaces the image's.
cat "$ORIGINAL" "$FOLDER/module.cpio" >"$FOLDER/initrd.img"
GUEST=$GUEST_OF_KIT
write_kit "$FOLDER/kit.json" "$FOLDER/initrd.img"
