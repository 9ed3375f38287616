//! Warnings about inputs that affect the figures. Packet numbers start at 1.

use std::path::Path;

use wingbeat_text::{grouped, plural};

use super::{Input, Link, PACKET_BYTES_MIN, capture::Capture};
use crate::Warning;

pub(super) fn of_capture(path: &Path, capture: &Capture) -> Vec<Warning> {
    let path = path.display();
    let taken = capture.packets.len() as u64;
    let count = |is_one: fn(&super::capture::Packet) -> bool| {
        capture.packets.iter().filter(|packet| is_one(packet)).count() as u64
    };
    let mut warnings = Vec::new();
    if capture.left_out > 0 {
        warnings.push(left_out(path.to_string(), taken, capture.left_out));
    }
    let is_truncated = |packet: &super::capture::Packet| packet.is_truncated();
    if let Some(first) = capture.packets.iter().position(is_truncated) {
        warnings.push(Warning::new(
            "truncated",
            format!(
                "{path}: the capture kept only the beginning of {} (the first is {})",
                plural(count(is_truncated), "packet"),
                first + 1
            ),
            "the program sees shorter packets than those on the wire, and checksums and lengths in them \
             are wrong",
            "capture whole packets with `tcpdump -s 0`",
        ));
    }
    if capture.is_cut_off {
        let whole = taken + capture.left_out;
        warnings.push(Warning::new(
            "cut-off",
            format!("{path}: the file ends within a packet, after {whole} whole ones"),
            "that last packet is not measured",
            "wait until the capture ends, or copy the file again",
        ));
    }
    let raw_ip = count(|packet| packet.link == Link::RawIp);
    if raw_ip > 0 {
        warnings.push(Warning::new(
            "raw-ip",
            format!(
                "{path}: {} of the file {} with an IP header",
                plural(raw_ip, "packet"),
                if raw_ip == 1 { "begins" } else { "begin" }
            ),
            "a program that expects Ethernet (XDP, tc) reads the first bytes as addresses and \
             returns early, which looks fast",
            "capture on an Ethernet interface",
        ));
    }
    let bytes = capture.check_sequence_bytes;
    if bytes > 0 {
        warnings.push(Warning::new(
            "check-sequence",
            format!(
                "{path}: packets end with {bytes} bytes of frame check sequence, which network cards remove"
            ),
            "the program sees longer packets",
            format!("cut them with `editcap -C -{bytes}`"),
        ));
    }
    warnings
}

fn left_out(path: String, taken: u64, left_out: u64) -> Warning {
    let verb = |number: u64| if number == 1 { "is" } else { "are" };
    Warning::new(
        "left-out",
        format!(
            "{path}: only the first {} of the file {} used, {} {} left out",
            plural(taken, "packet"),
            verb(taken),
            grouped(left_out),
            verb(left_out)
        ),
        "the figures do not cover those",
        "raise the limit with --packets, or extract the relevant ones with editcap",
    )
}

/// Inputs that the kernel rejects as too short.
pub(super) fn short(path: &Path, inputs: &[Input]) -> Option<Warning> {
    let mut short = inputs.iter().filter(|input| input.data.len() < PACKET_BYTES_MIN);
    let first = &short.next()?.name;
    let number = plural(1 + short.count() as u64, "input");
    Some(Warning::new(
        "short",
        format!(
            "{}: {number} shorter than an Ethernet header of {PACKET_BYTES_MIN} bytes, {first} first",
            path.display()
        ),
        "the kernel may refuse to run programs on that",
        "use whole packets",
    ))
}

pub(super) fn looks_like_hex(path: &Path) -> Warning {
    Warning::new(
        "looks-like-hex",
        format!("{}: it was read as raw bytes, but is hexadecimal text", path.display()),
        "the program sees the digits themselves",
        "rename it to end in .hex if the text should be read",
    )
}
