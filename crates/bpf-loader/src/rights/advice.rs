//! Advice after a denied operation: `sudo` does not help root.

use rustix::process::geteuid;

use super::{Capability, Rights};

/// How this thread can get the capabilities that it `lacks` of those `needed`, or other possible
/// causes of a denial; an instruction for the end of a sentence, without a full stop.
pub fn how_to_get(needed: &[Capability]) -> String {
    match Rights::current() {
        Ok(rights) => advice(&rights, needed, geteuid().is_root()),
        Err(_) => "run it with sudo".to_owned(),
    }
}

fn advice(rights: &Rights, needed: &[Capability], is_root: bool) -> String {
    let missing: Vec<_> = needed.iter().filter(|&&needed| !rights.allow(needed)).collect();
    if missing.is_empty() {
        return "this process has the rights, so something else forbids it: a seccomp filter (a \
                container?), a security module, or the kernel's lockdown"
            .to_owned();
    }
    if !rights.count() {
        return "this process runs in a user namespace (a rootless container?), whose capabilities \
                do not apply to eBPF: run it outside"
            .to_owned();
    }
    if !is_root {
        return "run it with sudo".to_owned();
    }
    let names: Vec<_> = missing.iter().map(ToString::to_string).collect();
    format!(
        "this process is root, but has no {}: start its container or service with these \
         capabilities, for example with `docker run --cap-add`",
        names.join(" and no ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_for_everybody() {
        let check = |mask, is_initial, is_root, expected: &str| {
            let rights = Rights { is_initial_user_namespace: is_initial, ..Rights::with(mask) };
            let found = advice(&rights, &[Capability::Bpf, Capability::NetAdmin], is_root);
            assert!(found.starts_with(expected), "{found}");
        };
        check("0", true, false, "run it with sudo");
        check("0", true, true, "this process is root, but has no CAP_BPF and no CAP_NET_ADMIN: ");
        check("1000", true, true, "this process is root, but has no CAP_BPF: ");
        check("1ffffffffff", true, true, "this process has the rights, so something else");
        check("8000001000", true, false, "this process has the rights, so something else");
        check("1ffffffffff", false, true, "this process runs in a user namespace");
    }
}
