#!/bin/sh
# The guest's second program, on the disk: makes the machine that tests expect and runs the script of
# this run. Everything that is said goes through one pipe to the second serial line, in order.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root LANG=C.UTF-8 TERM=dumb
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs shm /dev/shm 2>/dev/null || { mkdir /dev/shm && mount -t tmpfs shm /dev/shm; }
mkdir -p /dev/pts && mount -t devpts -o ptmxmode=666 pts /dev/pts
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
mount -t securityfs security /sys/kernel/security
mount -t debugfs debug /sys/kernel/debug
mount -t tracefs trace /sys/kernel/tracing
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup /sys/fs/cgroup
chmod 1777 /tmp /var/tmp
ulimit -n 65536
ip link set lo up

mkfifo /run/out
cat /run/out >"/dev/$wingbeat_line" &
exec 3>/run/out

# A line for the host, on a line of its own whatever came before.
mark() {
    printf '\n@vm %s\n' "$*" >&3
}

# cpus one|all: how many CPUs run from here on.
cpus() {
    online=1
    [ "$1" = all ] || online=0
    for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do
        [ ! -f "$cpu" ] || echo $online >"$cpu"
    done
}

# suite NAME FOLDER PROGRAM ARGUMENT...: a test program. If some tests are ON_ALL_CPUS, the others run with
# one. Where the script says so, tests that fail run once more, each alone.
suite() {
    mark "begin $1"
    name=$1 folder=$2
    shift 2
    {
        if [ -n "$ON_ALL_CPUS" ]; then
            cpus one
            (cd "$folder" && exec "$@" $(printf ' --skip %s' $ON_ALL_CPUS))
            echo $? >/run/code
            cpus all
            (cd "$folder" && exec "$@" $ON_ALL_CPUS) || echo $? >/run/code
        else
            (cd "$folder" && exec "$@")
            echo $? >/run/code
        fi
    } </dev/null 2>&1 3>&- | busybox tee /run/said >&3
    code=$(cat /run/code)
    failed=$(busybox sed -n 's/^test \([^ ]*\) \.\.\. .*FAILED$/\1/p' /run/said)
    if [ "$code" != 0 ] && [ -n "$failed" ] && [ -n "$TWICE" ]; then
        code=0
        [ -z "$ON_ALL_CPUS" ] || cpus one
        for test in $failed; do
            if (cd "$folder" && exec "$1" --exact "$test") </dev/null >&3 2>&1 3>&-; then
                mark "again $test"
            else
                code=101
            fi
        done
        cpus all
    fi
    mark "end $code $name"
}

# file NAME COMMAND...: what a command prints, as a file for the host; what it complains of if it fails.
file() {
    mark "file $1"
    shift
    "$@" </dev/null >&3 2>/run/errors 3>&-
    code=$?
    mark eof
    [ $code = 0 ] || cat /run/errors >&3
}

mark "boot $(uname -r)"
# Everything into memory: where nobody computes, the clock of an emulated guest skips to what happens
# next, so that a wait for the disk may take it any time.
busybox find / -xdev -type f -exec cat {} + >/dev/null
. /run/script
mark done
exec 3>&-
wait
sync
busybox poweroff -f
