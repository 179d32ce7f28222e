# shellcheck shell=bash disable=SC2034 # the scripts that source this use its variables
# Sourced by every script: places, messages, steps. Everything that the scripts make lies in $HAMLYN_CACHE.
set -euo pipefail

# die REASON [NEXT STEP...]: end with a clear reason and what to do about it.
die() {
    local line
    printf 'error: %s\n' "$1" >&2
    for line in "${@:2}"; do printf '       %s\n' "$line" >&2; done
    exit 1
}

SELF=$(realpath "$0")
REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
CACHE=$(realpath -m "${HAMLYN_CACHE:-$REPO/.hamlyn}")
ROOT=$CACHE/root
# Set by scripts/prepare --demo: the examples that the demo does not show are not wanted.
DEMO=
# Set by images/packages: the root has what makes images of Debian packages.
IMAGES=
# Set by scripts/prepare --demo --plugin: a card of the demo sees its machine's stores.
PLUGIN=
# Which kernel the guests have: that of Debian's backports for clouds; or Debian 13's own, that of
# backports for any machine, or one of ours that looks for errors, each of which has a kit of its own.
HAMLYN_KERNEL=${HAMLYN_KERNEL:-backports}
case $HAMLYN_KERNEL in
backports) GUEST=$CACHE/guest KIT=$CACHE/kit.json ;;
stable) GUEST=$CACHE/guest-stable KIT=$CACHE/kit-stable.json ;;
generic) GUEST=$CACHE/guest-generic KIT=$CACHE/kit-generic.json ;;
debug | kcsan) GUEST=$CACHE/guest-$HAMLYN_KERNEL KIT=$CACHE/kit-$HAMLYN_KERNEL.json ;;
*) die "HAMLYN_KERNEL is '$HAMLYN_KERNEL'" "it may be: backports, stable, generic, debug, kcsan" ;;
esac
export HAMLYN_KERNEL
# An ordinary user on Debian lacks chroot and mount's folder.
PATH=$PATH:/usr/sbin:/sbin
# The folder of the names that the caller gives.
CALLER=$PWD
cd "$REPO"
# The kernel's build, the dynamic loader and JSON each give some characters a meaning. These are tried; all others are refused
# before anything is fetched.
bad_characters=$(printf %s "$REPO$CACHE" | LC_ALL=C tr -d 'A-Za-z0-9/._,+@=[]~^{}\200-\377-' && echo .)
if [[ $bad_characters != . ]]; then
    die "the path '$REPO' or '$CACHE' holds '${bad_characters:0:1}', with which a part of the build cannot work" \
        "move the folder: letters, digits and . _ - , + are good"
fi
mkdir -p "$CACHE"/{bin,log} "$GUEST"
# Tests and the program itself find the kit through it, wherever the cache lies.
export HAMLYN_CACHE=$CACHE
# Always: a kit of the caller's would have another tree's parts tested.
export HAMLYN_KIT=$KIT

# help_if_asked "$@": print the script's opening comment if --help is among the arguments.
help_if_asked() {
    local arg
    for arg in "$@"; do
        if [[ $arg == --help || $arg == -h ]]; then
            sed -n '2,/^[^#]/ { /^#/ s/^# \{0,1\}//p }' "$SELF"
            exit 0
        fi
    done
}

# no_arguments "$@": for scripts that take none but --help.
no_arguments() {
    if (($#)); then die "unknown argument '$1'" "see: $SELF --help"; fi
}

# version: of all that is made here.
version() { sed -n '/^version = /{ s/.*"\(.*\)"/\1/p; q }' Cargo.toml; }

# seconds_since MICROSECONDS: as 1.2
seconds_since() {
    local tenths=$(((${EPOCHREALTIME/[.,]/} - $1) / 100000))
    printf '%d.%d' $((tenths / 10)) $((tenths % 10))
}

# What the scripts need, in MiB: in the cache, and in target/. du shows 1,640 and 1,900 after scripts/prepare, whose cache
# has the fetched packages and a second root for a while.
PREPARE_ROOM=(2560 2048)
TEST_ROOM=(4096 12288)

# need_room WHAT CACHE_MIB TARGET_MIB: end unless there is room for what the cache and target/ still lack.
need_room() {
    local target=$REPO/target
    if [[ ! -d $target ]]; then target=$REPO; fi
    if [[ $(stat -Lc %d "$CACHE") == "$(stat -Lc %d "$target")" ]]; then
        room_in "$CACHE" $(($2 + $3)) "$1" "$CACHE" "$REPO/target"
    else
        room_in "$CACHE" "$2" "$1" "$CACHE"
        room_in "$target" "$3" "$1" "$REPO/target"
    fi
}

# room_in FOLDER MIB WHAT MADE...: end if the folder's file system has too little room. What is in MADE is there already.
room_in() {
    local folder=$1 need=$2 what=$3 free made
    free=$(df -Pm "$folder" | awk 'NR == 2 { print $4 }')
    if ((free >= need)); then return; fi
    for made in "${@:4}"; do
        if [[ -d $made ]]; then need=$((need - $(du -Dsm "$made" | cut -f 1))); fi
    done
    if ((free < need)); then
        die "$folder has $free MiB free, and $what needs $need MiB more" \
            "remove files on this file system, or set HAMLYN_CACHE to a folder on another for what is fetched"
    fi
}

# step NAME TEXT COMMAND...: run COMMAND (a function, too) with its output in log/NAME.log; one line for a person.
step() {
    timed "$@"
    if ((outcome)); then step_failed "$CACHE/log/$1.log"; fi
}

outcome=0
# timed NAME TEXT COMMAND...: the same, but a failure is only noted in $outcome.
# Not in the exit status: a caller's `||` would switch `set -e` off inside COMMAND.
timed() {
    local log=$CACHE/log/$1.log text=$2 start=${EPOCHREALTIME/[.,]/}
    shift 2
    printf '  %-44s' "$text"
    if [[ -t 1 ]]; then
        ticks "$text" "$start" &
        ticker=$!
    fi
    set +e
    (set -e && "$@") >"$log" 2>&1 </dev/null
    outcome=$?
    set -e
    stop_ticker
    if [[ -t 1 ]]; then printf '\r  %-44s' "$text"; fi
    printf ' %6s s\n' "$(seconds_since "$start")"
    # The command was ended by SIGINT or SIGTERM: end the script, too.
    if ((outcome == 130 || outcome == 143)); then interrupted; fi
}

step_failed() {
    printf -- '--- the end of %s\n' "$1" >&2
    tail -n 25 "$1" >&2
    printf -- '---\n' >&2
    die "this step failed" "the whole output: $1" "what is done is kept: run the same command again to go on"
}

ticker=''
stop_ticker() {
    if [[ $ticker ]] && kill "$ticker"; then wait "$ticker" || true; fi 2>/dev/null
    ticker=''
}

# ticks TEXT START: the seconds so far, on a terminal, until stopped or the script is killed.
ticks() {
    while sleep 1 && kill -0 $$; do printf '\r  %-44s %6s s' "$1" "$(seconds_since "$2")"; done
}

# newer OUTPUT INPUT...: true when OUTPUT exists and nothing in the INPUTs (files or folders) is newer.
newer() {
    local output=$1 changed
    shift
    [[ -e $output ]] || return 1
    changed=$(find "$@" -newer "$output" -print -quit 2>&1) && [[ -z $changed ]]
}

# once NAME: one run at a time works on the cache; held until the script ends.
once() {
    exec 9>"$CACHE/lock"
    if ! flock -n 9; then
        echo "  another run is working on $CACHE: waiting for it"
        flock 9
    fi
}

# Said once, by the script that the person started.
export HAMLYN_STARTED=${HAMLYN_STARTED:-$$}
interrupted() {
    trap '' INT TERM
    stop_ticker
    if ((HAMLYN_STARTED == $$)); then
        printf '\ninterrupted: what is done is kept; run the same command again to go on\n' >&2
    fi
    exit 130
}
trap interrupted INT TERM
