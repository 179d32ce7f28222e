# shellcheck shell=bash
# New Debian systems, made by mmdebstrap of the private root. That needs root, sudo, or user namespaces with a range of users (the
# package uidmap).

# shellcheck disable=SC2034 # for root.sh
prepare_for_systems() {
    IMAGES=1
    prepare_root
}

# from_a_mirror COMMAND...: run COMMAND with a mirror and options for mmdebstrap as further arguments, until one mirror has it all.
from_a_mirror() {
    local mirror option options=(--aptopt='APT::Sandbox::User "root"' --aptopt='Acquire::Retries "3"') mirrors
    mapfile -t mirrors < <(own_mirrors)
    ((${#mirrors[@]})) || die "apt on this machine knows no mirror" "add Debian's to /etc/apt/sources.list"
    # What the host's configuration says about fetching (proxies, ...).
    while read -r option; do options+=("--aptopt=$option"); done < <(
        env -u APT_CONFIG apt-config dump | grep '^Acquire::[^"]*"..*";' || true
    )
    for mirror in "${mirrors[@]}"; do
        if "$@" "$mirror" "${options[@]}"; then return; fi
    done
    return 1
}

# in_systems_root COMMAND...: in the private root, with what makes systems, and files of any user.
in_systems_root() { IN_ROOT_USERS=1 IN_ROOT_BINDS="/etc/resolv.conf /etc/hosts /etc/ssl/certs" in_root "$@"; }

# debian_mirror MIRROR SUITE: the line of apt's sources.
debian_mirror() { echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $1 $2 main"; }
