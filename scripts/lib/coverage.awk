# Prints a table of gcov's files, with ":" between fields: of each source and each folder, the lines with code, and how many
# of them were executed. The first line has the source's name. Before the first ":" is the number of times, "-" for a line
# without code, "#####" for a line that was not executed.
FNR == 1 {
    source = $4
    folder = source
    sub(/\/[^\/]*$/, "/", folder)
    if (!(folder in has)) folders[++last_folder] = folder
    sources[++last_source] = source
}
{
    gsub(/[ *]/, "", $1)
    if ($1 !~ /^([0-9]+|#####|=====)$/) next
    is_executed = $1 ~ /^[0-9]/ && $1 + 0 > 0
    count(source)
    count(folder)
    count("all")
}
function count(what) {
    has[what]++
    executed[what] += is_executed
}
function row(what) {
    if (has[what]) printf " %-28s %8d %10d %8.1f %%\n", what, has[what], executed[what], 100 * executed[what] / has[what]
}
END {
    printf " %-28s %8s %10s\n", "file", "lines", "executed"
    for (at = 1; at <= last_source; at++) row(sources[at])
    print ""
    for (at = 1; at <= last_folder; at++) row(folders[at])
    row("all")
}
