#!/usr/bin/env bash
# Build the kernel module of a copy of the repository, and a kit in FOLDER whose guests load it.
# All other parts are those of the repository's kit. The mutation check runs this in its copy.
#
#   HAMLYN_CACHE=CACHE broken_module.sh FOLDER REPOSITORY
source "$(dirname "$0")/all.sh"
BINARIES=$2/target/$TARGET/release
mkdir -p "$1"
make_module_in "$1"
make_kit_in "$1"
