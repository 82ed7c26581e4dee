# For the tasks listed in the first file, in the wake-ups of the second: the largest number of
# wake-ups in a row at which a task stayed although the existing policy would have moved it, the
# total of such wake-ups, and of all wake-ups. For up to 16 CPUs.
NR == FNR { wanted[$1] = 1; next }
$1 == "end" { ended = $2; next }
NF != 6 || /^#/ || !($2 in wanted) { wakes += NF == 6 && !/^#/; next }
{
    wakes++
    count++
    # A task that was moved between wake-ups is held anew.
    if ($2 in at_last && at_last[$2] != $4) row[$2] = 0
    at_last[$2] = $6
    idle = 0
    for (at = 1; at <= length($5); at++) idle = 16 * idle + index("0123456789abcdef", substr($5, at, 1)) - 1
    if (existing($3, $4, idle) != $6) {
        stayed++
        if (++row[$2] > longest) longest = row[$2]
        if ($6 != $4) wrong++
    } else row[$2] = 0
}
function has(set, cpu) { return and(rshift(set, cpu), 1) }
function existing(waker, previous, idle, cpu, step) {
    if (has(idle, waker)) return waker
    if (has(idle, previous)) return previous
    for (step = 1; step < 16; step++) {
        cpu = (waker + step) % 16
        if (has(idle, cpu)) return cpu
    }
    return waker
}
END {
    if (ended != wakes) wrong = "cut-short"
    print longest + 0, stayed + 0, count + 0, wrong + 0
}
