# What both parts begin with: programs whose class is known, where they may run, and sessions that place them.

number=0

# begin stall|compute [shared|sync MAPPED]: one that turns to the other once /tmp/turn.NUMBER is there; sets program to its id.
begin() {
    number=$((number + 1))
    class=$1
    shift
    works $class /tmp/turn.$number "$@" &
    program=$!
}

# begin_four: two of each class; sets pids.
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

# The class of a program, by what it was started as and whether it was to turn.
class_of() { # class_of PID
    set -- $(tr '\0' ' ' </proc/$1/cmdline)
    case $2,$([ -e $3 ] && echo turned) in
        stall, | compute,turned) echo stall ;;
        *) echo compute ;;
    esac
}

# Where all threads of a process may run: one list, if it is the same for all.
cpus_of() { # cpus_of PID
    echo $(awk '/^Cpus_allowed_list:/ { print $2 }' /proc/$1/task/*/status | sort -u)
}

# The core of a process's CPU, as the list of the CPUs that it has; 'free' if it may run on several.
core_of() { # core_of PID
    siblings=/sys/devices/system/cpu/cpu$(cpus_of $1)/topology/thread_siblings_list
    [ -e $siblings ] && cat $siblings || echo free
}

# How many lists of CPUs the programs have, and who is on a core with whom, whatever the core: '4: compute+stall compute+stall'.
arrangement() {
    for pid in $(pidof works); do echo "$(core_of $pid) $(class_of $pid) $(cpus_of $pid)"; done | sort | awk '
        { text[$1] = text[$1] (text[$1] ? "+" : "") $2; lists += !seen[$3]++ }
        END { for (core in text) print text[core]; print " " lists + 0 ":" }' | sort | tr '\n' ' '
}

# becomes PATTERN COMMAND..: until what it says is like that.
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

# is PATTERN COMMAND..: now.
is() {
    wanted=$1
    shift
    said=$(echo $("$@" 2>&1))
    case $said in
        $wanted) ;;
        *) fail "'$*': expected '$wanted', saw '$said'; daiko pair said: $(tail -n 6 /tmp/said | tr '\n' '|')" ;;
    esac
}

# attach OPTION..: begins a session, in session.
attach() {
    daiko pair --interval 1 "$@" 2>/tmp/said &
    session=$!
}

# ends CODE: the session does, and nothing of it is left.
ends() {
    wait $session
    code=$?
    [ $code = "$1" ] || fail "daiko pair: expected the exit code $1, saw $code; it said: $(tail -n 6 /tmp/said | tr '\n' '|')"
    is '' sh -c 'find /run /tmp -path "*/daiko-pair/*"'
}

free='1: compute+compute+stall+stall'
