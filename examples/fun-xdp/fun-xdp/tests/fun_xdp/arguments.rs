//! Runs that end before the first packet.

use std::process::{Command, Stdio};

use aya::util::KernelVersion;
use rustix::process::Signal;

use crate::{
    enter_network, loader,
    network::RECEIVER,
    program::{Run, check, check_without_rights, copied},
};

fn check_arguments(arguments: &[&str], code: i32, stderr: &str) {
    check(loader().args(arguments), code, stderr);
}

#[test]
fn wrong_usage_is_2() {
    check_arguments(&[], 2, "--iface <IFACE>");
    check_arguments(&["--iface"], 2, "a value is required");
    check_arguments(&["--iface", "lo", "--version", "v5"], 2, "invalid value 'v5'");
    check_arguments(&["--iface", "lo", "--version"], 2, "a value is required");
    check_arguments(&["--iface", "lo", "v3"], 2, "unexpected argument 'v3'");
}

#[test]
fn an_interface_that_does_not_exist_is_1() {
    for name in ["none", "", "a name", "longer-than-any-interface", "a/b"] {
        let message = format!("there is no network interface `{name}`: `ip link` lists them");
        check_arguments(&["--iface", name], 1, &message);
    }
}

#[test]
fn without_rights_it_says_how_to_get_them() {
    check_without_rights(env!("CARGO_BIN_EXE_fun-xdp"), &["--iface", "lo"]);
}

#[test]
fn capabilities_are_rights_enough() {
    let Some(_network) = enter_network() else { return };
    let (_folder, program) = copied(env!("CARGO_BIN_EXE_fun-xdp"));
    let with = |capabilities: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps"]);
        command.args([capabilities, "--ambient-caps", capabilities]).arg(&program);
        command.args(["--iface", RECEIVER]).current_dir("/").stdin(Stdio::null());
        command
    };
    let nothing = "0 classified, 0 Fizz, 0 Buzz, 0 FizzBuzz, 0 Fibonacci";
    Run::launch(&mut with("+bpf,+net_admin,+perfmon")).end(Signal::INT, nothing);
    // Logging uses pointer arithmetic, for which the verifier requires another capability, up to Linux 7.1.
    if KernelVersion::current().unwrap() < KernelVersion::new(7, 2, 0) {
        let stricter = "; it is stricter without cap_perfmon: run this as root";
        check(&mut with("+bpf,+net_admin"), 1, stricter);
    } else {
        Run::launch(&mut with("+bpf,+net_admin")).end(Signal::INT, nothing);
    }
    check(&mut with("+bpf"), 1, "not permitted to");
}

#[test]
fn an_interface_takes_one_program() {
    let Some(_network) = enter_network() else { return };
    let _first = Run::start(RECEIVER, "v1");
    let message = format!("another XDP program is attached to {RECEIVER}: `ip link show dev");
    check_arguments(&["--iface", RECEIVER], 1, &message);
    // In generic mode the kernel's error differs.
    let _first = Run::start("lo", "v1");
    check_arguments(&["--iface", "lo"], 1, "another XDP program is attached to lo");
}
