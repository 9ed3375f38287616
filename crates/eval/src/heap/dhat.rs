//! Files of DHAT: their sums, and their sites.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};

use crate::comparison::kept;

/// What a file says of a whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sums {
    pub(super) bytes: u64,
    pub(super) blocks: u64,
    pub(super) peak_bytes: u64,
    pub(super) end_bytes: u64,
    pub(super) end_blocks: u64,
}

impl Sums {
    /// In the order of the table.
    pub(super) fn all(&self) -> [u64; 5] {
        [self.bytes, self.blocks, self.peak_bytes, self.end_bytes, self.end_blocks]
    }
}

/// A file, as far as it is needed.
#[derive(Debug, Deserialize)]
pub(super) struct Dhat {
    pps: Vec<Point>,
    ftbl: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Point {
    tb: u64,
    tbk: u64,
    gb: u64,
    eb: u64,
    ebk: u64,
    fs: Vec<usize>,
}

impl Dhat {
    pub(super) fn read(file: &Path) -> anyhow::Result<Self> {
        kept(file)
    }

    pub(super) fn sums(&self) -> Sums {
        summed(&self.pps)
    }

    /// Sums of what was asked for below the code of a source.
    pub(super) fn sums_in(&self, source: &str) -> Sums {
        summed(self.pps.iter().filter(|point| self.innermost_line(point, source).is_some()))
    }

    /// Bytes by the innermost line of a source.
    pub(super) fn lines(&self, source: &str) -> BTreeMap<u64, u64> {
        let mut lines = BTreeMap::new();
        for point in &self.pps {
            if let Some(line) = self.innermost_line(point, source) {
                *lines.entry(line).or_default() += point.tb;
            }
        }
        lines
    }

    fn innermost_line(&self, point: &Point, source: &str) -> Option<u64> {
        let mut frames = point.fs.iter().filter_map(|&frame| self.ftbl.get(frame));
        frames.find_map(|frame| line_of(frame, source))
    }
}

fn summed<'a>(points: impl IntoIterator<Item = &'a Point>) -> Sums {
    points.into_iter().fold(Sums::default(), |sums, point| Sums {
        bytes: sums.bytes + point.tb,
        blocks: sums.blocks + point.tbk,
        peak_bytes: sums.peak_bytes + point.gb,
        end_bytes: sums.end_bytes + point.eb,
        end_blocks: sums.end_blocks + point.ebk,
    })
}

/// The line in `0x1178: main (/folder/sites.c:3)`, if it is one of this source; dhat-rs adds the column.
fn line_of(frame: &str, source: &str) -> Option<u64> {
    let mut place = frame.strip_suffix(')')?.rsplit_once('(')?.1.split(':');
    let name = place.next()?.rsplit('/').next()?;
    (name == source).then(|| place.next()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_lines() {
        let text = r#"{"ftbl": ["[root]", "0x1: malloc (m.c:9)", "0x2: f (/a/sites.c:3)", "0x3: main (sites.c:8)"],
            "pps": [{"tb": 100, "tbk": 2, "gb": 60, "eb": 50, "ebk": 1, "fs": [1, 2, 3]},
                    {"tb": 7, "tbk": 1, "gb": 7, "eb": 0, "ebk": 0, "fs": [1, 2]},
                    {"tb": 1, "tbk": 1, "gb": 1, "eb": 1, "ebk": 1, "fs": [1]}]}"#;
        let dhat: Dhat = serde_json::from_str(text).expect("it has all");
        assert_eq!(dhat.sums().all(), [108, 4, 68, 51, 2]);
        assert_eq!(dhat.lines("sites.c"), BTreeMap::from([(3, 107)]));
        assert_eq!(dhat.sums_in("sites.c").all(), [107, 3, 67, 50, 1]);
        assert_eq!(line_of("0x1: f (in /usr/bin/git)", "git"), None);
        assert_eq!(line_of("0x1: a::f (src/a.rs:12:34)", "a.rs"), Some(12));
    }
}
