//! The format of DHAT's viewer, version 2: what valgrind's `dh_view.html` and the Firefox Profiler open
//! (valgrind's dhat/dh_main.c and dhat/dh_view.js, 3.19).

use std::{collections::HashMap, io::Write};

use serde::Serialize;
use wingbeat_text::grouped;

use super::{ExportError, checked::Checked};
use crate::model::{Amount, Frame, FrameId, Profile};

/// What the file says beside the places.
#[derive(Debug, Clone, PartialEq)]
pub struct HeapFacts {
    /// The process, or the first of several.
    pub pid: u32,
    /// When most was live, nanoseconds since the start.
    pub peak_ns: u64,
    /// Mean bytes between two samples; 0: every allocation was taken.
    pub sample_bytes: u32,
}

/// Blocks that live shorter than this are called short-lived, microseconds: as dhat-rs has it.
const SHORT_LIVED_US: u64 = 10;

/// The file. Names are those of the format.
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
    tuth: u64,
    cmd: String,
    pid: u32,
    /// Time at the end, and when most was live.
    te: u64,
    tg: u64,
    pps: Vec<Point>,
    ftbl: Vec<String>,
}

/// A place.
#[derive(Debug, Serialize)]
struct Point {
    /// All bytes and blocks, and the sum of their lives.
    tb: u64,
    tbk: u64,
    tl: u64,
    /// The most of this place alone.
    mb: u64,
    mbk: u64,
    /// When most was live of all.
    gb: u64,
    gbk: u64,
    /// At the end.
    eb: u64,
    ebk: u64,
    /// Indices of `ftbl`, innermost first.
    fs: Vec<usize>,
}

/// Writes the places of a profile.
pub fn write_dhat(
    profile: &Profile,
    facts: &HeapFacts,
    writer: &mut dyn Write,
) -> Result<(), ExportError> {
    let profile = Checked::new(profile)?;
    let mut frames = Frames::new(profile.profile());
    let points = profile.sites.iter().map(|site| {
        let stack = &profile.stacks[site.stack as usize].frames;
        let both = |amount: Amount| (amount.bytes(), amount.blocks());
        let (tb, tbk) = both(site.total);
        let (mb, mbk) = both(site.own_peak);
        let (gb, gbk) = both(site.at_peak);
        let (eb, ebk) = both(site.at_end);
        let fs = stack.iter().flat_map(|&frame| frames.of(frame)).collect();
        let tl = (site.lifetime_ns / 1e3) as u64;
        Point { tb, tbk, tl, mb, mbk, gb, gbk, eb, ebk, fs }
    });
    let pps = points.collect();
    let document = Document {
        version: 2,
        mode: match facts.sample_bytes {
            0 => "heap".to_owned(),
            bytes => format!("heap, sampled every {} bytes", grouped(bytes)),
        },
        verb: "Allocated",
        bklt: true,
        bkacc: false,
        tu: "µs",
        mtu: "s",
        tuth: SHORT_LIVED_US,
        cmd: profile.meta.target.clone(),
        pid: facts.pid,
        te: profile.meta.duration_ns / 1_000,
        tg: facts.peak_ns / 1_000,
        pps,
        ftbl: frames.texts,
    };
    serde_json::to_writer(&mut *writer, &document).map_err(std::io::Error::from)?;
    writer.write_all(b"\n")?;
    Ok(())
}

/// Texts of frames, each once.
struct Frames<'a> {
    profile: &'a Profile,
    texts: Vec<String>,
    known: HashMap<FrameId, Vec<usize>>,
}

impl<'a> Frames<'a> {
    fn new(profile: &'a Profile) -> Self {
        Self { profile, texts: vec!["[root]".to_owned()], known: HashMap::new() }
    }

    /// The lines of a frame, innermost first: what was inlined has a line of its own.
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

/// `0xADDRESS: function (file:line)`; where there is no line, the binary stands in its place.
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
