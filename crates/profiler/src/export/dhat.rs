//! The format of DHAT's viewer, version 2, which valgrind's `dh_view.html` and the Firefox Profiler read
//! (valgrind's dhat/dh_main.c and dhat/dh_view.js, 3.19).

use std::{collections::HashMap, io::Write};

use serde::Serialize;

use super::{Checked, ExportError};
use crate::model::{Frame, FrameId, Profile, Site};

/// File contents other than the program points.
#[derive(Debug, Clone, PartialEq)]
pub struct HeapFacts {
    /// The process, or the first of several.
    pub pid: u32,
    /// How the program points were found.
    pub mode: String,
    /// Time of the peak, in nanoseconds since the start; `None` if block lifetimes are unknown.
    pub peak_ns: Option<u64>,
}

/// Blocks with a shorter lifetime count as short-lived, in microseconds: the value of dhat-rs.
const SHORT_LIVED_US: u64 = 10;

/// The file, with the format's names.
#[derive(Debug, Serialize)]
struct Document {
    #[serde(rename = "dhatFileVersion")]
    version: u32,
    mode: String,
    verb: &'static str,
    bklt: bool,
    bkacc: bool,
    tu: &'static str,
    #[serde(rename = "Mtu")]
    mtu: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tuth: Option<u64>,
    cmd: String,
    pid: u32,
    /// Time at the end and at the peak.
    te: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tg: Option<u64>,
    pps: Vec<Point>,
    ftbl: Vec<String>,
}

/// A program point.
#[derive(Debug, Serialize)]
struct Point {
    /// Total bytes and blocks.
    tb: u64,
    tbk: u64,
    #[serde(flatten)]
    lives: Option<Lives>,
    /// Indices of `ftbl`, innermost first.
    fs: Vec<usize>,
}

/// Values that depend on when blocks were freed.
#[derive(Debug, Serialize)]
struct Lives {
    /// Sum of lifetimes.
    tl: u64,
    /// Own peak of this point.
    mb: u64,
    mbk: u64,
    /// At the global peak.
    gb: u64,
    gbk: u64,
    /// At the end.
    eb: u64,
    ebk: u64,
}

impl Lives {
    fn of(site: &Site) -> Self {
        Self {
            tl: (site.lifetime_ns / 1e3) as u64,
            mb: site.own_peak.bytes(),
            mbk: site.own_peak.blocks(),
            gb: site.at_peak.bytes(),
            gbk: site.at_peak.blocks(),
            eb: site.at_end.bytes(),
            ebk: site.at_end.blocks(),
        }
    }
}

/// Writes the program points of a profile.
pub fn write_dhat(
    profile: &Profile,
    facts: &HeapFacts,
    writer: &mut dyn Write,
) -> Result<(), ExportError> {
    let profile = Checked::new(profile)?;
    let mut frames = Frames::new(profile.profile());
    let points = profile.sites.iter().map(|site| {
        let stack = &profile.stacks[site.stack as usize].frames;
        let fs = stack.iter().flat_map(|&frame| frames.of(frame)).collect();
        let (tb, tbk) = (site.total.bytes(), site.total.blocks());
        Point { tb, tbk, lives: facts.peak_ns.map(|_| Lives::of(site)), fs }
    });
    let pps = points.collect();
    let document = Document {
        version: 2,
        mode: facts.mode.clone(),
        verb: "Allocated",
        bklt: facts.peak_ns.is_some(),
        bkacc: false,
        tu: "µs",
        mtu: "s",
        tuth: facts.peak_ns.map(|_| SHORT_LIVED_US),
        cmd: profile.meta.target.clone(),
        pid: facts.pid,
        te: profile.meta.duration_ns / 1_000,
        tg: facts.peak_ns.map(|peak_ns| peak_ns / 1_000),
        pps,
        ftbl: frames.texts,
    };
    serde_json::to_writer(&mut *writer, &document).map_err(std::io::Error::from)?;
    writer.write_all(b"\n")?;
    Ok(())
}

/// Interner frame texts.
struct Frames<'a> {
    profile: &'a Profile,
    texts: Vec<String>,
    known: HashMap<FrameId, Vec<usize>>,
}

impl<'a> Frames<'a> {
    fn new(profile: &'a Profile) -> Self {
        Self { profile, texts: vec!["[root]".to_owned()], known: HashMap::new() }
    }

    /// The lines of a frame, innermost first. Inlined functions have lines of their own.
    fn of(&mut self, id: FrameId) -> Vec<usize> {
        if let Some(known) = self.known.get(&id) {
            return known.clone();
        }
        let frame = &self.profile.frames[id as usize];
        let texts = texts(self.profile, frame);
        let first = self.texts.len();
        self.texts.extend(texts);
        let lines: Vec<usize> = (first..self.texts.len()).collect();
        self.known.insert(id, lines.clone());
        lines
    }
}

/// `0xADDRESS: function (file:line)`, with the binary instead of a missing line.
fn texts(profile: &Profile, frame: &Frame) -> Vec<String> {
    let binary = frame.binary.and_then(|id| profile.binaries.get(id as usize));
    let binary = binary.map_or("?", |binary| binary.path.as_str());
    let text = |line: &crate::model::Line| {
        let name = &profile.functions[line.function as usize].name;
        match (&line.file, line.line) {
            (Some(file), Some(number)) => format!("{:#x}: {name} ({file}:{number})", frame.address),
            (Some(file), None) => format!("{:#x}: {name} ({file})", frame.address),
            (None, _) => format!("{:#x}: {name} (in {binary})", frame.address),
        }
    };
    frame.lines.iter().map(text).collect()
}
