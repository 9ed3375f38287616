//! What a user should know about inputs before believing figures that come from them.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{Input, Link, PACKET_BYTES_MIN, capture::Capture};

/// Something to know about the inputs of a file. Packets count from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Warning {
    /// More packets than were asked for.
    LeftOut {
        path: PathBuf,
        taken: u64,
        /// Packets after those.
        left_out: u64,
    },
    /// The capture kept only the beginning of packets.
    Truncated {
        path: PathBuf,
        packets: u64,
        /// The first of them.
        first: u64,
    },
    /// The file ends within a packet.
    CutOff {
        path: PathBuf,
        /// Whole packets before it.
        packets: u64,
    },
    /// Packets begin with an IP header.
    RawIp { path: PathBuf, packets: u64 },
    /// Packets end with the check sequence of their frames.
    CheckSequence { path: PathBuf, bytes: u32 },
    /// Packets that the kernel refuses for being too short.
    Short {
        path: PathBuf,
        inputs: u64,
        /// Name of the first of them.
        first: String,
    },
    /// Bytes that are digits and blanks only.
    LooksLikeHex { path: PathBuf },
}

impl Warning {
    pub(super) fn of_capture(path: &Path, capture: &Capture) -> Vec<Self> {
        let path = path.to_owned();
        let taken = capture.packets.len() as u64;
        let count = |is_one: fn(&super::capture::Packet) -> bool| {
            capture.packets.iter().filter(|packet| is_one(packet)).count() as u64
        };
        let mut warnings = Vec::new();
        if capture.left_out > 0 {
            let left_out = capture.left_out;
            warnings.push(Self::LeftOut { path: path.clone(), taken, left_out });
        }
        let is_truncated = |packet: &super::capture::Packet| packet.is_truncated();
        if let Some(first) = capture.packets.iter().position(is_truncated) {
            let (packets, first) = (count(is_truncated), first as u64 + 1);
            warnings.push(Self::Truncated { path: path.clone(), packets, first });
        }
        if capture.is_cut_off {
            let packets = taken + capture.left_out;
            warnings.push(Self::CutOff { path: path.clone(), packets });
        }
        let packets = count(|packet| packet.link == Link::RawIp);
        if packets > 0 {
            warnings.push(Self::RawIp { path: path.clone(), packets });
        }
        if capture.check_sequence_bytes > 0 {
            warnings.push(Self::CheckSequence { path, bytes: capture.check_sequence_bytes });
        }
        warnings
    }

    pub(super) fn short(path: &Path, inputs: &[Input]) -> Option<Self> {
        let mut short = inputs.iter().filter(|input| input.data.len() < PACKET_BYTES_MIN);
        let first = short.next()?.name.clone();
        Some(Self::Short { path: path.to_owned(), inputs: 1 + short.count() as u64, first })
    }
}

/// `1 packet`, `2 packets`.
fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = match self {
            Self::LeftOut { path, .. }
            | Self::Truncated { path, .. }
            | Self::CutOff { path, .. }
            | Self::RawIp { path, .. }
            | Self::CheckSequence { path, .. }
            | Self::Short { path, .. }
            | Self::LooksLikeHex { path } => path.display(),
        };
        write!(f, "{path}: ")?;
        match self {
            Self::LeftOut { taken, left_out, .. } => write!(
                f,
                "only the first {} of the file were taken, {left_out} were left out: figures say nothing \
                 about those; give a higher limit, or cut the interesting ones out with editcap",
                counted(*taken, "packet")
            ),
            Self::Truncated { packets, first, .. } => write!(
                f,
                "the capture kept only the beginning of {} (the first is {first}): the program sees \
                 shorter packets than those on the wire, and checksums and lengths in them are \
                 wrong; capture whole packets with `tcpdump -s 0`",
                counted(*packets, "packet")
            ),
            Self::CutOff { packets, .. } => write!(
                f,
                "the file ends within a packet, after {packets} whole ones: that last packet is not \
                 measured; let the capture end by itself, or copy the file again"
            ),
            Self::RawIp { packets, .. } => write!(
                f,
                "{} of the file begin with an IP header: a program that expects Ethernet (XDP, tc) \
                 takes the first bytes for addresses and turns back early, which looks fast; capture \
                 on an Ethernet interface",
                counted(*packets, "packet")
            ),
            Self::CheckSequence { bytes, .. } => write!(
                f,
                "packets end with {bytes} bytes of frame check sequence, which network cards remove: \
                 the program sees packets that are longer by that; cut them with `editcap -C -{bytes}`"
            ),
            Self::Short { inputs, first, .. } => write!(
                f,
                "{} shorter than an Ethernet header of {PACKET_BYTES_MIN} bytes, {first} first: the \
                 kernel may refuse to run programs on that; give whole packets",
                counted(*inputs, "input")
            ),
            Self::LooksLikeHex { .. } => write!(
                f,
                "it was taken as raw bytes, but is hexadecimal text: the program sees the digits \
                 themselves; rename it to end in .hex if the text should be read"
            ),
        }
    }
}
