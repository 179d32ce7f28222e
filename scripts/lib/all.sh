# shellcheck shell=bash
# What every script sources.
# With it "cd scripts/lib" may lead into another tree.
unset CDPATH
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
source "$LIB/common.sh"
source "$LIB/cargo.sh"
source "$LIB/root.sh"
source "$LIB/system.sh"
source "$LIB/own_kernel.sh"
source "$LIB/drgn.sh"
source "$LIB/build.sh"
source "$LIB/coverage.sh"
