#!/bin/bash
# Tracks the repository's own benchmarks with `wingbeat run`. `cargo xtask track` builds that and calls this in the
# root, with the flags of the branch, and with `exact` in TIMES to leave out benchmarks that take times.
#
# Exact counts decide: instructions in user space by Valgrind, those of kernel programs by `wingbeat bench`, and the
# verifier's statistics of programs that cannot be run on demand. Times are stored, but fail nothing.
set -uo pipefail
wingbeat=target/quick/wingbeat
read -r _ compiler _ < <("${RUSTC:-rustc}" --version) || exit 2
machine="$(uname -m)"
# Counts are comparable within one testbed.
user="rustc $compiler $machine"
kernel="Linux $(uname -r) $machine"
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo -E)
# Context of raw tracepoints: twelve zero arguments, so that each takes the path of an unselected thread.
context=target/track/zeros.hex
mkdir -p target/track && printf '00%.0s' {1..96} >"$context" || exit 2

worse=()
job() { # name, testbed, adapter, then flags and the command
    local name="$1" testbed="$2" adapter="$3"
    shift 3
    echo "==> $name" >&2
    # Its report is on the terminal; the other jobs still run.
    "$wingbeat" run --project wingbeat "${side[@]}" --testbed "$testbed" --adapter "$adapter" "$@" || worse+=("$name")
}
side=("$@")

# Compiler updates may cost a hundredth of the instructions.
job "instructions of user space" "$user" rust_gungraun \
    --threshold-measure instructions --threshold-upper-boundary 0.01 --err \
    cargo bench -p wingbeat-stats --bench stats_exact -p wingbeat-bpf-loader --bench spec_exact \
    -p wingbeat-track --bench track_exact -p wingbeat-profiler --bench profile_exact \
    -p fun-xdp --bench source_addr_instructions

# Executed instructions must not grow at all; verified ones change with every branch, and only their magnitude matters.
# All programs are loaded, and run if the kernel can; at least one of each object, otherwise `wingbeat bench` fails.
programs() { # object, then flags of its context
    job "programs of $1" "$kernel" wingbeat_bench \
        --threshold-measure instructions --threshold-upper-boundary 0 \
        --threshold-measure verified-instructions --threshold-upper-boundary 0.05 \
        --threshold-measure xlated-size --threshold-upper-boundary 0.05 --err \
        "${as_root[@]}" "$wingbeat" bench "$1" --format json "${@:2}"
}
programs target/ebpf/bpfel-unknown-none/release/fun-xdp
programs "crates/profiler/kernel-half/profile-ebpf.x86_64.o" --ctx "$context"

if [ "${TIMES:-}" != exact ]; then
    job times "$machine times" rust_criterion \
        cargo bench -p wingbeat-stats --bench bootstrap -p wingbeat-track --bench verdict
fi

if [ ${#worse[@]} -gt 0 ]; then
    printf 'worse, or not measured: %s\n' "${worse[@]}" >&2
    echo "  \`$wingbeat log\` lists the reports, \`$wingbeat alerts\` the alerts" >&2
    exit 1
fi
echo "nothing exact became worse" >&2
