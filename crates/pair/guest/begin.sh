# Common functions of all parts: programs with known classes, their affinities, and sessions that
# place them.

number=0

# begin stall|compute [shared|sync MAPPED]: starts a program that changes to the other class once
# /tmp/turn.NUMBER exists; sets program to its id.
begin() {
    number=$((number + 1))
    class=$1
    shift
    works $class /tmp/turn.$number "$@" &
    program=$!
}

# begin_four: starts two programs of each class; sets pids.
begin_four() {
    pids=
    for class in stall stall compute compute; do
        begin $class
        pids=$pids,$program
    done
    pids=${pids#,}
}

end_programs() {
    kill $(pidof works)
    until [ -z "$(pidof works)" ]; do sleep 0.1; done
    rm -f /tmp/turn.*
    number=0
}

# Prints the class of a program, from its arguments and its file.
class_of() { # class_of PID
    set -- $(tr '\0' ' ' </proc/$1/cmdline)
    case $2,$([ -e $3 ] && echo turned) in
        stall, | compute,turned) echo stall ;;
        *) echo compute ;;
    esac
}

# Prints the affinity of a process's threads: one list if all are equal.
cpus_of() { # cpus_of PID
    echo $(awk '/^Cpus_allowed_list:/ { print $2 }' /proc/$1/task/*/status | sort -u)
}

# Prints the core of a process, as the list of its siblings; 'free' if it may run on other CPUs.
core_of() { # core_of PID
    cpus=$(cpus_of $1)
    siblings=/sys/devices/system/cpu/cpu${cpus%%[-, ]*}/topology/thread_siblings_list
    [ "$(cat $siblings 2>/dev/null)" = "$cpus" ] && echo $cpus || echo free
}

# Prints the number of different affinities and the pairs of classes that share a core, in any order
# of cores: '2: compute+stall compute+stall'.
arrangement() {
    for pid in $(pidof works); do echo "$(core_of $pid) $(class_of $pid) $(cpus_of $pid)"; done | sort | awk '
        { text[$1] = text[$1] (text[$1] ? "+" : "") $2; lists += !seen[$3]++ }
        END { for (core in text) print text[core]; print " " lists + 0 ":" }' | sort | tr '\n' ' '
}

# becomes PATTERN COMMAND..: waits until the output of the command matches.
becomes() {
    wanted=$1
    shift
    tries=0
    while :; do
        said=$(echo $("$@" 2>&1))
        case $said in $wanted) return ;; esac
        tries=$((tries + 1))
        [ $tries -lt 3000 ] ||
            fail "'$*': expected '$wanted', saw '$said' after ten minutes; daiko pair said: $(tail -n 6 /tmp/said | tr '\n' '|')"
        sleep 0.2
    done
}

# is PATTERN COMMAND..: checks that the output of the command matches now.
is() {
    wanted=$1
    shift
    said=$(echo $("$@" 2>&1))
    case $said in
        $wanted) ;;
        *) fail "'$*': expected '$wanted', saw '$said'; daiko pair said: $(tail -n 6 /tmp/said | tr '\n' '|')" ;;
    esac
}

# attach OPTION..: begins a session; sets session to its id.
attach() {
    daiko pair --interval 1 "$@" 2>/tmp/said &
    session=$!
}

# ends CODE: waits for the end of the session, with this exit code and without a journal left.
ends() {
    wait $session
    code=$?
    [ $code = "$1" ] || fail "daiko pair: expected the exit code $1, saw $code; it said: $(tail -n 6 /tmp/said | tr '\n' '|')"
    is '' sh -c 'find /run /tmp -path "*/daiko-pair/*"'
}

free='1: compute+compute+stall+stall'
