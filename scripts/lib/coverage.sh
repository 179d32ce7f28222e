# shellcheck shell=bash
# Which lines of the kernel module the programs of scripts/driver execute. The debug kernel counts them (gcov) in a module
# that is built for it, which no other test has.

COVERAGE=$CACHE/coverage

# measure_coverage OPTION...: test the counting module, with each card or the one that the options name, and print a table.
measure_coverage() {
    local model models=() kit=$COVERAGE/kit.json
    if [[ " $* " == *" --model"[=\ ]* ]]; then models=(chosen); else mapfile -t models < <(card_models); fi
    mkdir -p "$COVERAGE"
    (
        once
        build_counting_module
    )
    rm -rf "$COVERAGE"/{counts,report,*.tar}
    for model in "${models[@]}"; do
        local options=("$@")
        if [[ $model != chosen ]]; then options=(--model "$model" "$@"); fi
        HAMLYN_KIT=$kit target/release/hamlyn driver-test --counts "$COVERAGE/$model.tar" "${options[@]}"
        add_counts "$COVERAGE/$model.tar"
    done
    report_coverage
}

card_models() { target/release/hamlyn models | awk 'NR > 1 { print $1 }'; }

counting_objects() { echo "$COVERAGE/module/$(kernel_version)"; }

build_counting_module() {
    if newer "$COVERAGE/kit.json" guest-driver "$GUEST/initrd.img" "${KERNEL_STAMPS[@]}"; then return; fi
    # shellcheck disable=SC2034 # for make_module
    local MODULE_ARGUMENTS=(GCOV_PROFILE=y)
    step module "build the kernel module that counts lines" make_module_in "$COVERAGE"
    step overlay "guest image with it" make_kit_in "$COVERAGE"
}

# add_counts ARCHIVE: add the counts of a run to those of the runs before it.
add_counts() {
    local new=$COVERAGE/counts.new sum=$COVERAGE/counts.sum all=$COVERAGE/counts
    rm -rf "$new" "$sum"
    mkdir "$new"
    tar -xf "$1" -C "$new"
    if [[ ! -e $all ]]; then
        mv "$new" "$all"
        return
    fi
    root_run gcov-tool merge "$all" "$new" -o "$sum" >"$CACHE/log/coverage.log" 2>&1 || step_failed "$CACHE/log/coverage.log"
    rm -rf "$all" "$new"
    mv "$sum" "$all"
}

# report_coverage: write each source with its counts into the folder report, and print a table.
report_coverage() {
    local objects report=$COVERAGE/report counts
    objects=$(counting_objects)
    mkdir -p "$report"
    # gcov looks for the counts beside the notes of the compiler, for sources in its own folder, and writes there.
    cp -r "$COVERAGE/counts/$objects/." "$objects/"
    mapfile -t counts < <(cd "$objects" && find . -name '*.gcda' | sort)
    (cd "$objects" && root_run gcov --preserve-paths --relative-only "${counts[@]}") >"$CACHE/log/coverage.log" 2>&1 ||
        step_failed "$CACHE/log/coverage.log"
    mv "$objects"/*.gcov "$report/"
    awk -F: -f "$LIB/coverage.awk" "$report"/*.gcov
    echo "each source with its counts: ${report/#"$REPO/"/}"
}
