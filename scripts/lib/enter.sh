#!/usr/bin/env bash
# Run by in_root (root.sh) as the first process of fresh namespaces: mount what a build needs, then run the command.
set -euo pipefail

# A minimal Debian has no mount of its own.
mount() { "$ROOT/usr/bin/busybox" mount "$@"; }
# With sudo we are root here. What is made in the root must belong to the caller, who has to be able to remove it.
as_owner() { chroot ${OWNER:+--userspec="$OWNER"} / "$@"; }
bind() {
    if [[ -d $1 ]]; then
        as_owner mkdir -p "$ROOT$1"
    else
        as_owner mkdir -p "$(dirname "$ROOT$1")"
        as_owner touch "$ROOT$1"
    fi
    mount -o rbind "$1" "$ROOT$1"
}
# This mount comes before the others: the repository may lie below /tmp.
mount -t tmpfs tmpfs "$ROOT/tmp"
bind "$REPO"
if [[ $CACHE != "$REPO"/* ]]; then bind "$CACHE"; fi
bind /dev
# In a container /proc may be masked. Then a new one cannot be mounted, and the one that is there is bound.
mount -t proc proc "$ROOT/proc" 2>/dev/null || mount -o rbind /proc "$ROOT/proc"
for path in ${IN_ROOT_BINDS:-}; do
    if [[ -e $path ]]; then bind "$path"; fi
done

# Not exec: the command would be the first process of a PID namespace, which ignores Ctrl-C.
status=0
chroot ${OWNER:+--userspec="$OWNER"} "$ROOT" /usr/bin/env -C "$PWD" PATH=/usr/bin:/usr/sbin "$@" || status=$?
exit "$status"
