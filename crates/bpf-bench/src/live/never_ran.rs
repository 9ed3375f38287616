//! Measured programs that never ran: an error, because 0.0 ns is not a result.

use std::fmt;

use wingbeat_text::duration;

use super::report::{LiveOutcome, LiveReport, ProgramReport};

/// A program that never ran, with advice.
#[derive(Debug, Clone, PartialEq)]
pub struct NeverRan {
    program: ProgramReport,
    duration_ns: u64,
}

impl LiveReport {
    /// Selected programs that never ran. With `any_suffices`, if none was selected explicitly:
    /// either all of them or none.
    pub fn never_ran(&self, any_suffices: bool) -> Vec<NeverRan> {
        let ran = |program: &&ProgramReport| program.outcome == LiveOutcome::Ran;
        if any_suffices && self.programs.iter().any(|program| ran(&program)) {
            return Vec::new();
        }
        let idle = self.programs.iter().filter(|program| !ran(program));
        let tell = |program: &ProgramReport| NeverRan {
            program: program.clone(),
            duration_ns: self.duration_ns,
        };
        idle.map(tell).collect()
    }
}

impl fmt::Display for NeverRan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = &self.program;
        write!(f, "{} never ran in {}: ", program.label(), duration(self.duration_ns))?;
        match program.attached.as_slice() {
            [] => f.write_str(
                "is it attached? No link attaches it, and no interface of this network namespace has it as XDP or as a filter of tc; `bpftool net` in other namespaces, `bpftool perf`, `bpftool cgroup tree` and `bpftool struct_ops` list what wingbeat does not look at",
            )?,
            links => write!(f, "it is attached ({}), but nothing happened there", links.join(", "))?,
        }
        write!(f, "; {}", cause(&program.r#type))
    }
}

/// How to trigger a program of a type.
fn cause(r#type: &str) -> &'static str {
    match r#type {
        "xdp" => {
            "send it traffic: it sees what arrives at its interface, not what leaves it. If it is reached by tail calls only, its runs and time are in the figures of its caller"
        }
        "sched_cls" | "sched_act" => {
            "send traffic through its interface, in the direction that it is attached to. If it is reached by tail calls only, its runs and time are in the figures of its caller"
        }
        "socket_filter" | "sk_skb" | "sk_msg" | "sk_reuseport" | "sk_lookup" | "sock_ops" => {
            "send traffic to its sockets"
        }
        "syscall" => "programs of this type run only when a process requests it",
        "struct_ops" => {
            "register its structure (`bpftool struct_ops register`) and select it, for example \
             with `sysctl net.ipv4.tcp_congestion_control` and new connections"
        }
        "ext" => "trigger the function that it replaces",
        name if name.starts_with("cgroup") => {
            "run what it watches inside the cgroup that it is attached to"
        }
        _ => {
            "trigger the event that it is attached to. If it is reached by tail calls only, its \
             runs and time are in the figures of its caller"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::format::tests::{program, report};

    #[test]
    fn what_has_to_have_run() {
        let check = |runs: &[u64], any_suffices, expected: usize| {
            let programs =
                runs.iter().zip(1..).map(|(&runs, id)| program(id, "p", runs, 10 * runs));
            let found = report(programs.collect()).never_ran(any_suffices);
            assert_eq!(found.len(), expected, "{runs:?}");
        };
        check(&[1, 2], false, 0);
        check(&[1, 0], false, 1);
        check(&[1, 0], true, 0);
        check(&[0, 0], true, 2);
        check(&[0, 0], false, 2);
        check(&[], true, 0);
    }

    #[test]
    fn sentences() {
        let mut idle = program(7, "fun_xdp_v3", 0, 0);
        let text =
            |program: &ProgramReport| report(vec![program.clone()]).never_ran(false)[0].to_string();
        assert!(text(&idle).starts_with(
            "fun_xdp_v3 (id 7) never ran in 2.00 s: is it attached? No link attaches it, and no interface"
        ));
        idle.attached = vec!["xdp on veth0".to_owned()];
        idle.name.clear();
        assert!(text(&idle).starts_with(
            "program 7 never ran in 2.00 s: it is attached (xdp on veth0), but nothing happened there; send it traffic: "
        ));
    }
}
