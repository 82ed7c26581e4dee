# `daiko pair --advise`: a job of programs with declared classes, which count their rounds. How much
# it gains from siblings says nothing under emulation.

# job CLASS..: starts programs that count; sets pids and options.
job() {
    pids=
    options=
    for class in "$@"; do
        dd if=/dev/zero of=/tmp/count.$number bs=8 count=1 2>/dev/null
        count=/tmp/count.$number
        begin $class count $count
        pids=$pids,$program
        options="$options --class $program=$class --progress $program=$count"
    done
    pids=${pids#,}
}

# advise OPTION..: advises about the job; sets said, and seen to the affinities of its first program
# meanwhile, one behind the other.
advise() {
    daiko pair --advise --seconds 4 --interval 1 --pid $pids "$@" >/tmp/advice 2>/tmp/said &
    session=$!
    while kill -0 $session 2>/dev/null; do cpus_of ${pids%%,*}; done | uniq >/tmp/seen
    seen=$(echo $(cat /tmp/seen))
    ends 0
    said=$(cat /tmp/advice)
}

# advise_by_trial OPTION..: the same, again if the machine has not let a program run for a slice.
advise_by_trial() {
    tries=0
    advise "$@"
    while grep -q 'no progress was made' /tmp/advice; do
        tries=$((tries + 1))
        [ $tries -lt 10 ] || fail "ten trials without progress: $said"
        advise "$@"
    done
    in_turns
}

in_turns() {
    case $seen in
        '0-3 0,2 0-3'*) ;;
        *) fail "siblings were not used in turns: $seen" ;;
    esac
}

figure='[0-9]+([.][0-9]+)?(e-?[0-9]+)?'
text='"[^"]*"'
gain='[{]"least":NUMBER,"most":NUMBER,"ratio":NUMBER[}]'
json='^[{]"class":"CLASS","cores":2,"gain":GAIN,"partner":"PARTNER","reasons":[[]TEXT,TEXT],"shares":[{]"compute":NUMBER,"stall":NUMBER,"unknown":NUMBER[}],"sources":[[]"declared"],"threads":[34],"threads_per_core":(1|2|null)[}]$'

# is_json CLASS PARTNER GAIN: checks the whole line.
is_json() {
    pattern=$(echo "$json" | sed "s/CLASS/$1/; s/PARTNER/$2/; s/GAIN/$3/; s/TEXT/$text/g; s/NUMBER/$figure/g")
    echo "$said" | grep -qE "$pattern" || fail "the advice is not like $pattern: $said"
}

job compute compute compute compute
advise_by_trial $options
expect 'Partner: stall' cat /tmp/advice
expect -threads-per-core cat /tmp/advice
[ "$(wc -l </tmp/advice)" = 1 ] || fail "the advice is no paragraph: $said"
advise_by_trial --json $options
is_json compute stall "$gain"
is "1: compute+compute+compute+compute" arrangement
end_programs
say ok 'a computing job is tried with and without siblings, and put back'

job stall stall stall stall
advise_by_trial --json $options
is_json stall compute "$gain"
is "1: stall+stall+stall+stall" arrangement
say ok 'a stalling job as well'

# Emulated processors count no instructions.
advise --json $(echo "$options" | sed 's/--progress [^ ]*//g')
[ "$seen" = 0-3 ] || fail "its affinity was changed without a trial: $seen"
is_json stall compute null
echo "$said" | grep -q '"threads_per_core":null' || fail "the gain is unknown: $said"
end_programs
say ok 'without a measure of progress nothing is tried, and the reason is given'
