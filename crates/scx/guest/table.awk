# Prints tables from the lines of the guest that begin with '@ row' and '@ stays', and checks the
# results. All are counts: of events for each 1,000 wake-ups, as the speed of a guest is that of
# its emulator.
/^@ row / {
    arm = $3 " " $4
    if (!(arm in rows)) order[++arms] = arm
    at = ++rows[arm]
    for (word = 7; $word != "to"; word += 2) before[$word] = $(word + 1)
    for (word++; word < NF; word += 2) count[arm, $word, at] = $(word + 1) - before[$word]
}
/^@ stays / { stays[$3 " " $4] = $5; stayed[$3 " " $4] = $6; recorded[$3 " " $4] = $7; wrong[$3 " " $4] = $8 }

# The events for each 1,000 wake-ups, in one repetition.
function part(arm, name, at, wakes) {
    wakes = count[arm, "wakes", at]
    return wakes ? 1000 * count[arm, name, at] / wakes : 0
}
function sorted(arm, name, into, n, i, j, x) {
    n = rows[arm]
    for (i = 1; i <= n; i++) {
        x = name == "wakes" ? count[arm, name, i] : part(arm, name, i)
        for (j = i - 1; j > 0 && into[j] > x; j--) into[j + 1] = into[j]
        into[j + 1] = x
    }
    return n
}
function median(arm, name, all, n) {
    n = sorted(arm, name, all)
    return n % 2 ? all[(n + 1) / 2] : (all[n / 2] + all[n / 2 + 1]) / 2
}
function cell(arm, name, all, n) {
    n = sorted(arm, name, all)
    return sprintf("%.1f (%.1f..%.1f)", median(arm, name), all[1], all[n])
}
# The number of repetitions in which the arm had less than the existing policy.
function less(steering, arm, name, at, less_in) {
    for (at = 1; at <= rows[steering " " arm]; at++)
        less_in += part(steering " " arm, name, at) < part(steering " existing", name, at)
    return less_in + 0
}
function check(what, holds) {
    print (holds ? "ok     " : "FAILED ") what
    failed += !holds
}
# The least number of wake-ups in a repetition of any arm.
function fewest(arm, at, least) {
    least = -1
    for (arm in rows)
        for (at = 1; at <= rows[arm]; at++)
            if (least < 0 || count[arm, "wakes", at] < least) least = count[arm, "wakes", at]
    return least
}
END {
    print "for each 1,000 wake-ups:"
    print "RFS  arm        of    wake-ups in all            migrations                 swaps                   held                       ended by the bound"
    for (i = 1; i <= arms; i++) {
        split(order[i], parts, " ")
        printf "%-4s %-9s %3d    %-26s %-26s %-23s %-26s %s\n", parts[1], parts[2], rows[order[i]], cell(order[i], "wakes"),
            cell(order[i], "migrations"), cell(order[i], "swaps"), cell(order[i], "held"), cell(order[i], "bound")
    }
    print "(medians, with the range; 'again' is the existing policy once more, in the same repetitions)"
    base = median("on existing", "migrations")
    printf "migrations, RFS on: follow %.2f of existing, fewer in %d of %d repetitions; again %.2f, fewer in %d\n",
        median("on follow", "migrations") / (base ? base : 1), less("on", "follow", "migrations"), rows["on follow"],
        median("on again", "migrations") / (base ? base : 1), less("on", "again", "migrations")
    for (arm in stays)
        printf "RFS %s: at most %d wake-ups in a row at which a receiver stayed against the policy of kernels, %d in all of %d\n",
            arm, stays[arm], stayed[arm], recorded[arm]
    check("10 repetitions or more of each arm, RFS on", rows["on existing"] >= 10 && rows["on follow"] >= 10 && rows["on again"] >= 10)
    check("enough wake-ups in each repetition: " least_wakes " or more", fewest() >= least_wakes)
    check("swaps under existing: more than 10 of 1,000 wake-ups", median("on existing", "swaps") > 10 && median("on again", "swaps") > 10)
    check("swaps under follow: less than 1 of 1,000", rows["on follow"] && median("on follow", "swaps") < 1)
    check("RFS off: follow holds, and lets go by the bound", median("off follow", "bound") > 0)
    for (arm in stays) check("RFS " arm ": enough recorded wake-ups: " least_recorded " or more", recorded[arm] >= least_recorded)
    check("RFS off: no thread stays for more than 4 wake-ups", ("off follow" in stays) && stays["off follow"] <= 4)
    check("RFS on: no thread stays for more than 4 wake-ups", ("on follow" in stays) && stays["on follow"] <= 4)
    check("existing decides as the policy of kernels", ("on existing" in stays) && stays["on existing"] + stays["off existing"] == 0 && !wrong["on follow"] && !wrong["off follow"])
    exit failed > 0
}
