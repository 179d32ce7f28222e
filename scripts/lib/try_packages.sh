#!/usr/bin/env bash
# Run by scripts/package in a new system, as root: install the packages beside this file, use what they have, and remove them.
#
#   try_packages.sh [dkms]   with any argument, DKMS builds the driver for kernels of this system
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
cd "$(dirname "$0")"
started=()
# The units' user, and their folder for counters.
as_hamlyn=(setpriv --reuid hamlyn --regid hamlyn --clear-groups env HAMLYN_RUN=/run/hamlyn/counters)
trap 'kill "${started[@]}" 2>/dev/null || true; tail -n 30 /var/lib/dkms/hamlyn/*/build/make.log 2>/dev/null || true' EXIT

fail() {
    echo "error: $1" >&2
    exit 1
}

install() { apt-get install --yes --no-install-recommends "$@" </dev/null; }

# Everything but what apt, dpkg and caches keep, and copies of the users' files.
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /packages -o -path /tmp -o -path /var/log \
        -o -path /var/cache -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path '/etc/*-' \) -prune -o -print | sort
}

# eventually TEXT COMMAND...: until it succeeds, for half a minute.
eventually() {
    local text=$1 end=$((SECONDS + 30))
    shift
    while ((SECONDS < end)); do
        if "$@"; then return; fi
        sleep 0.1
    done
    fail "still not after 30 s: $text"
}

# activate UNIT TYPE PATH...: as the units say, listen, and start the service for the first client.
activate() {
    local unit=$1 type=$2 sockets=() path command
    shift 2
    for path in "$@"; do sockets+=(-l "$path"); done
    command=$(sed -n 's/^ExecStart=//p' "/usr/lib/systemd/system/$unit" | sed "s/%i/$card/g; s/ \\\$HAMLYN_[A-Z]*//")
    # shellcheck disable=SC2086 # several words
    "${as_hamlyn[@]}" systemd-socket-activate -E HAMLYN_RUN $type "${sockets[@]}" $command &
    started+=($!)
    # 00010000: it listens.
    for path in "$@"; do eventually "$path listens" grep -q "00010000 .* $path\$" /proc/net/unix; done
}

use_cards() {
    local card=
    systemd-tmpfiles --create hamlyn.conf
    activate hamlyn-switch.service --seqpacket /run/hamlyn/switch.sock
    for card in card0 card1; do
        activate hamlyn-card@.service '' "/run/hamlyn/$card.sock" "/run/hamlyn/$card.sock.doorbell"
    done
    # The library talks to a card's socket as to the card of its machine.
    HAMLYN_CARD=vfio-user:/run/hamlyn/card1.sock /tmp/c-channel serve &
    started+=($!)
    eventually "the message has come back" ask hello
    "${as_hamlyn[@]}" hamlyn stat >counters
    grep -q card0 counters || fail "hamlyn stat does not show the card: $(<counters)"
}

ask() { [[ $(timeout 20 env HAMLYN_CARD=vfio-user:/run/hamlyn/card0.sock /tmp/c-channel-static ask "$1") == "$1" ]]; }

use_library() {
    local source=/usr/share/doc/hamlyn-doc/examples/c/c-channel.c
    # shellcheck disable=SC2046 # several words
    cc "$source" -o /tmp/c-channel $(pkg-config --cflags --libs hamlyn)
    ldd /tmp/c-channel | grep -q 'libhamlyn.so.1 => /' || fail "the program is not linked with the library"
    # shellcheck disable=SC2046
    cc -static "$source" -o /tmp/c-channel-static $(pkg-config --static --cflags --libs hamlyn)
    man -w hamlyn hamlyn-card uln_channel >/dev/null
}

# DKMS builds the driver for each kernel that it is for, and for no other.
use_driver() {
    local kernel
    for kernel in /lib/modules/*; do
        kernel=${kernel##*/}
        if [[ $kernel == 6.1.* ]]; then
            dkms autoinstall --kernelver "$kernel" || true
            [[ ! $(dkms status -k "$kernel" hamlyn) == *installed* ]] || fail "the driver was built for $kernel"
        else
            dkms autoinstall --kernelver "$kernel"
            modinfo "/lib/modules/$kernel/updates/dkms"/hamlyn{,-net}.ko* | grep "vermagic:.* $kernel "
        fi
    done
}

# With all that the packages need, so that what is left afterwards is theirs.
install systemd udev man-db pkg-config gcc libc6-dev dkms
if (($#)); then
    # The system's own kernel, and that of its backports.
    for suite in "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)"{,-backports}; do
        install --target-release "$suite" kmod linux-headers-cloud-amd64
    done
fi
files >before
install ./*.deb
hamlyn --version
use_library
use_cards
systemd-analyze verify hamlyn-switch.service hamlyn-card@0.service
systemd-analyze security --offline=true --threshold=10 hamlyn-switch.service hamlyn-card@0.service >exposure ||
    fail "the units' sandbox is not whole: $(<exposure)"
udevadm verify /usr/lib/udev/rules.d/60-hamlyn-guest-dkms.rules || [[ $(systemctl --version | head -n 1 | cut -d ' ' -f 2) -lt 254 ]]
if (($#)); then use_driver; fi
kill "${started[@]}"
wait
started=()
[[ -z $(ls /run/hamlyn/counters) ]] || fail "cards that have ended leave sockets"
apt-get purge --yes 'hamlyn*' 'libhamlyn*' </dev/null
files >after
comm -13 before after >left
if [[ -s left ]]; then fail "the packages leave files: $(<left)"; fi
echo "installed, used and removed"
