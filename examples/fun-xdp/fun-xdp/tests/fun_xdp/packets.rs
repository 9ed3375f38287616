//! Packets in, classes out.

use std::{net::Ipv4Addr, thread, time::Duration};

use fun_xdp::SourceAddr;
use rustix::process::Signal;

use crate::{
    enter_network,
    network::{Network, RECEIVER, ip},
    program::Run,
};

/// Source addresses with every last octet.
fn sources() -> impl Iterator<Item = Ipv4Addr> {
    (0..=255).map(|octet| Ipv4Addr::new(192, 0, 2, octet))
}

/// Sends one packet from each address, with pauses so that the interface keeps up: there is a queue
/// of 256 packets, which a kernel thread empties.
fn send_all(network: &Network) {
    for (sent, source) in sources().enumerate() {
        network.send(source).unwrap();
        if sent % 64 == 63 {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn check_version(version: &str, classify: fn(u32) -> Option<SourceAddr>) {
    let Some(network) = enter_network() else { return };
    let mut run = Run::start(RECEIVER, version);
    let driver_refused = run.err().iter().any(|line| line.contains("in generic mode"));
    assert!(!driver_refused, "such an interface has native mode: {run}");
    send_all(&network);
    let expected: Vec<_> =
        sources().filter_map(|source| classify(source.into())).map(|c| c.to_string()).collect();
    run.wait_for_classes(expected.len());
    let count = |name| expected.iter().filter(|class| *class == name).count();
    let tally = format!(
        "{} classified, {} Fizz, {} Buzz, {} FizzBuzz, {} Fibonacci",
        expected.len(),
        count("Fizz"),
        count("Buzz"),
        count("FizzBuzz"),
        count("Fibonacci")
    );
    run.end(Signal::INT, &tally);
    assert_eq!(run.out(), expected, "in the order of the packets");
}

#[test]
fn v1_prints_fizz() {
    check_version("v1", SourceAddr::new_v1);
}

#[test]
fn v2_prints_fizz_and_buzz() {
    check_version("v2", SourceAddr::new_v2);
}

#[test]
fn v3_prints_fibonacci_too() {
    check_version("v3", SourceAddr::new_v3);
}

#[test]
fn v4_prints_what_v3_prints() {
    check_version("v4", SourceAddr::new_v3);
}

#[test]
fn v0_logs_addresses_and_no_more() {
    let Some(network) = enter_network() else { return };
    let mut run = Run::start(RECEIVER, "v0");
    for source in [Ipv4Addr::new(198, 51, 100, 7), Ipv4Addr::new(203, 0, 113, 255)] {
        network.send(source).unwrap();
        let logged = format!("source address {source}");
        run.wait_for_log(&logged, |line| line.ends_with(&logged));
    }
    run.end(Signal::TERM, "0 classified, 0 Fizz, 0 Buzz, 0 FizzBuzz, 0 Fibonacci");
}

#[test]
fn an_interface_without_native_mode_is_attached_in_generic_mode() {
    let Some(network) = enter_network() else { return };
    let mut run = Run::start("lo", "v4");
    let is_reported = run.err().iter().any(|line| {
        line.contains("lo refuses XDP in native mode") && line.contains("in generic mode")
    });
    assert!(is_reported, "{run}");
    // Each packet is answered, as its protocol is unknown, from an address without a class. Only
    // octet sums matter: 127 + 4 is 2 modulo 3 and 1 modulo 5, 127 + 18 is a Buzz.
    let destination = Ipv4Addr::new(127, 0, 0, 4);
    for last_octet in [13, 18] {
        network.send_to(Ipv4Addr::new(127, 0, 0, last_octet), destination).unwrap();
    }
    run.wait_for_classes(2);
    run.end(Signal::INT, "2 classified, 0 Fizz, 1 Buzz, 0 FizzBuzz, 1 Fibonacci");
    assert_eq!(run.out(), ["Fibonacci", "Buzz"]);
}

#[test]
fn the_end_of_the_interface_ends_a_run() {
    let Some(_network) = enter_network() else { return };
    let mut run = Run::start(RECEIVER, "v4");
    ip(&format!("link delete {RECEIVER}\n")).unwrap();
    assert_eq!(run.finish().code(), Some(1), "{run}");
    let last = format!("the network interface {RECEIVER} is gone, and with it the program");
    assert!(run.err().iter().any(|line| line.ends_with(&last)), "{run}");
}

#[test]
fn a_reader_that_goes_away_ends_a_run() {
    let Some(network) = enter_network() else { return };
    let mut run = Run::start_without_reader(RECEIVER, "v4");
    network.send(Ipv4Addr::new(192, 0, 2, 1)).unwrap();
    assert_eq!(run.finish().code(), Some(0), "{run}");
}
