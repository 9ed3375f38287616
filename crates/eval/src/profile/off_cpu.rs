//! How each tool watches every switch of a target. All start the target themselves.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::Context as _;

use super::{
    parse::{number, perf_stats, summary, wingbeat_lost_blocks},
    process,
    record::{Outcome, Target},
    workload::Job,
};

type Found = anyhow::Result<(Target, Outcome)>;

/// The tracepoint, as perf names it.
pub(super) const SWITCH: &str = "sched:sched_switch";

/// A map of durations per stack. The stack is taken when the thread goes, and used when it comes back.
const BPFTRACE: &str = "
tracepoint:sched:sched_switch {
    if (pid == cpid) { @out[tid] = nsecs; @kernel[tid] = kstack; @user[tid] = ustack(127); }
    $out = @out[args->next_pid];
    if ($out) {
        @ns[@kernel[args->next_pid], @user[args->next_pid]] = sum(nsecs - $out);
        delete(@out[args->next_pid]);
    }
}
END { clear(@out); clear(@kernel); clear(@user); }";

/// wingbeat's command line up to the target's.
pub(super) fn wingbeat_command(job: &Job<'_>, flags: &[&str]) -> Command {
    let mut command = Command::new(job.programs.join("wingbeat"));
    command.args(["profile", "--mode", "off-cpu", "--quiet"]).args(flags);
    command.arg("--output").arg(job.file("blocked.svg"));
    command.arg("--summary-json").arg(job.file("summary.json")).arg("--");
    command
}

pub(super) fn wingbeat(job: &Job<'_>, flags: &[&str]) -> Found {
    let (target, usage) = job.launch(&mut wingbeat_command(job, flags))?;
    let summary = summary(&job.file("summary.json"))?;
    let outcome = Outcome {
        file_bytes: size(&job.file("blocked.svg"))?,
        seen: Some(number(&summary, "/off_cpu/switches/out")?),
        lost: Some(wingbeat_lost_blocks(&summary)?),
        ..Outcome::of(usage)
    };
    Ok((target, outcome))
}

pub(super) fn perf(job: &Job<'_>, flags: &[&str]) -> Found {
    let data = job.file("perf.data");
    let mut record = Command::new("perf");
    record.args(["record", "--quiet", "-e", SWITCH, "-g", "-o"]).arg(&data).args(flags);
    let (target, usage) = job.launch(record.arg("--"))?;
    let (seen, lost) = perf_stats(&data, SWITCH)?;
    let read = || process::run(&mut script(&data), Stdio::null(), &job.messages());
    // With -a the others' are among them.
    let ours_only = flags.is_empty();
    let outcome = Outcome {
        reading_cpu_ns: ours_only.then(read).transpose()?.map(|usage| usage.cpu_ns),
        file_bytes: size(&data)?,
        seen: ours_only.then_some(seen),
        lost: Some(lost),
        ..Outcome::of(usage)
    };
    // Hundreds of megabytes, and all that is wanted of them is known.
    fs::remove_file(&data).with_context(|| format!("cannot remove {}", data.display()))?;
    Ok((target, outcome))
}

pub(super) fn bpftrace(job: &Job<'_>) -> Found {
    let mut command = Command::new("bpftrace");
    command.args(["-c", &job.words().join(" "), "-e", BPFTRACE]);
    // By default it reads the program's symbols anew for each frame.
    command.env("BPFTRACE_CACHE_USER_SYMBOLS", "1");
    let (target, usage) = job.run(&mut command)?;
    let file_bytes = size(&job.file("output.txt"))?;
    Ok((target, Outcome { file_bytes, ..Outcome::of(usage) }))
}

/// perf's recording as text: times in nanoseconds, and names without those of inlined functions,
/// which take it minutes.
pub(super) fn script(data: &Path) -> Command {
    let mut command = Command::new("perf");
    command.args(["script", "--ns", "--no-inline", "-F", "comm,tid,time,event,trace,ip,sym", "-i"]);
    command.arg(data);
    command
}

fn size(file: &Path) -> anyhow::Result<u64> {
    Ok(fs::metadata(file).with_context(|| format!("{} was not written", file.display()))?.len())
}
