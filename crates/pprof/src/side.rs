//! One sample type of a profile, as weights of stacks of functions with lines: one side of a comparison.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashSet},
};

use anyhow::{anyhow, ensure};

use crate::{
    interner::Interner,
    names,
    origin::{self, Crates, Origin, origin},
    pprof::BYTES_MAX,
    stacks::Stacks,
};

/// A function with one of its lines.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    /// As in the profile.
    pub(crate) name: String,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    /// Whether the later version of the file lacks the line.
    pub(crate) is_gone: bool,
    /// Whether its code is inlined into the previous frame of a stack.
    pub(crate) is_inlined: bool,
    pub(crate) origin: Origin,
}

/// A stack, outermost frame first, as indices into [`Side::frames`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stack {
    pub(crate) frames: Vec<u32>,
    pub(crate) weight: f64,
    /// Number of samples and blocks.
    pub(crate) count: f64,
}

/// A parsed profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    pub(crate) frames: Vec<Frame>,
    pub(crate) stacks: Vec<Stack>,
    /// Sum of the weights.
    pub(crate) total: f64,
    /// Type and unit of the weights: `wall nanoseconds`.
    pub(crate) kind: String,
    /// Counted and not sampled: the weights have no error.
    pub(crate) is_exact: bool,
}

/// Sample types with exact counts.
const EXACT: [&str; 1] = ["instructions"];

impl Side {
    /// Reads pprof, gzip'd or not. `side` is `earlier` or `later`, for errors.
    pub fn read(side: &'static str, bytes: &[u8]) -> anyhow::Result<Self> {
        Self::read_within(side, bytes, BYTES_MAX)
    }

    /// Same as [`read`](Self::read), with a maximum decompressed size.
    pub fn read_within(side: &'static str, bytes: &[u8], most: u64) -> anyhow::Result<Self> {
        let stacks = Stacks::read(bytes, most);
        stacks.map_err(|error| anyhow!("the {side} profile: {error}"))?.side(side, None)
    }

    /// Whether it was counted and not sampled.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Sum of the weights.
    pub fn total(&self) -> f64 {
        self.total
    }

    /// Source files of own code.
    pub fn own_files(&self) -> BTreeSet<&str> {
        let own = self.frames.iter().filter(|frame| frame.origin == Origin::Own);
        own.filter_map(|frame| frame.file.as_deref()).collect()
    }

    /// Renumbers lines to a later version of their files. `line` maps a line of a file: `Some(None)` if it was
    /// removed, and `None` if the file is unknown.
    pub fn renumbered(mut self, line: &dyn Fn(&str, u32) -> Option<Option<u32>>) -> Self {
        for frame in &mut self.frames {
            let (Some(file), Some(old)) = (&frame.file, frame.line) else { continue };
            match line(file, old) {
                Some(Some(new)) => frame.line = Some(new),
                Some(None) => frame.is_gone = true,
                None => {}
            }
        }
        self
    }

    /// Name and unit of the weights' type: `wall nanoseconds`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// A profile of counted stacks, `outermost;…;innermost`, as in collapsed stacks: without lines, and with
    /// origins derived from names. `kind` is the counted type and its unit: `samples count`.
    pub fn of_stacks<'s>(kind: &str, counts: impl Iterator<Item = (&'s str, u64)>) -> Self {
        let mut table = Interner::default();
        let stacks = counts.map(|(stack, count)| {
            let frames = stack.split(';').map(|name| table.id(Frame::written(name)));
            Stack::of(frames.collect(), count as f64, kind)
        });
        let stacks: Vec<Stack> = stacks.collect();
        let total = stacks.iter().map(|stack| stack.weight).sum();
        Self { frames: table.entries, stacks, total, kind: kind.to_owned(), is_exact: false }
    }

    /// The same weights as if read [from collapsed stacks](Self::of_stacks), with names as written there.
    pub fn collapsed(self, kind: &str, written: &dyn Fn(&str) -> String) -> Self {
        let mut table = Interner::default();
        let ids = self.frames.iter().map(|frame| {
            let name = written(&frame.name);
            // A function of a program may be named like one of the kernel.
            let is_kernel = frame.origin == Origin::Kernel;
            table.id(if is_kernel { Frame::named(name, true) } else { Frame::written(&name) })
        });
        let ids: Vec<u32> = ids.collect();
        let stacks = self.stacks.into_iter().map(|stack| {
            let frames = stack.frames.iter().map(|frame| ids[*frame as usize]).collect();
            Stack::of(frames, stack.weight, kind)
        });
        let (kind, total) = (kind.to_owned(), self.total);
        Self { stacks: stacks.collect(), frames: table.entries, total, kind, is_exact: false }
    }

    /// Unit of the weights: `ns`, or the counted type.
    pub fn unit(&self) -> &str {
        match self.kind.rsplit_once(' ') {
            Some((_, "nanoseconds")) => "ns",
            Some((what, "count")) => what,
            Some((_, unit)) => unit,
            None => &self.kind,
        }
    }

    /// Number of samples; for exact counts, of runs.
    pub(crate) fn samples(&self) -> f64 {
        self.stacks.iter().map(|stack| stack.count).sum()
    }

    pub(crate) fn check_comparable(&self, other: &Self) -> anyhow::Result<()> {
        let (before, after) = (&self.kind, &other.kind);
        ensure!(
            before == after,
            "the profiles have different sample types, {before} and {after}: only two of the same type can be compared"
        );
        let known: HashSet<_> = self.own().collect();
        let has_none = known.is_empty() || other.own().next().is_none();
        ensure!(
            has_none || other.own().any(|name| known.contains(&name)),
            "the profiles have no function in common: they are of different programs"
        );
        Ok(())
    }

    fn own(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let own = self.frames.iter().filter(|frame| frame.origin == Origin::Own);
        own.map(|frame| names::plain(&frame.name))
    }
}

impl Frame {
    /// A frame as collapsed stacks write it.
    fn written(name: &str) -> Self {
        let kernel = name.strip_suffix("_[k]");
        Self::named(kernel.unwrap_or(name).to_owned(), kernel.is_some())
    }

    fn named(name: String, is_kernel: bool) -> Self {
        let origin = origin(if is_kernel { "[kernel]" } else { "" }, &name, "");
        Self { name, file: None, line: None, is_gone: false, is_inlined: false, origin }
    }
}

impl Stack {
    /// A stack of collapsed stacks; for times, the number of blocks is unknown.
    fn of(frames: Vec<u32>, weight: f64, kind: &str) -> Self {
        Self { frames, weight, count: if kind.ends_with(" count") { weight } else { 1.0 } }
    }
}

impl Side {
    /// `None` if there are no values.
    pub(crate) fn of(profile: &Stacks, shown: Option<&str>) -> Option<Self> {
        let types: Vec<(&str, &str)> = profile.types().collect();
        let shown = shown.unwrap_or(profile.shown());
        // The default type, or else the last.
        let weight = types.iter().position(|(name, _)| *name == shown);
        let weight = weight.or(types.len().checked_sub(1))?;
        let is_count = |at: &usize| types[*at].1 == "count" && *at != weight;
        let counts: Vec<usize> = (0..types.len()).filter(is_count).collect();
        let (period_unit, period) = profile.period();
        let unit = types[weight].1;
        // How much weight a sample has, in profiles that do not count samples.
        let sample = match unit {
            "count" => Some(1.0),
            _ if period > 0 && period_unit == unit => Some(period as f64),
            _ => None,
        };
        let mut table = Interner::default();
        let places = profile.places();
        let frames_of: Vec<Vec<u32>> =
            places.map(|(image, at, lines)| frames_at(&mut table, image, at, lines)).collect();
        let mut crates = Crates::default();
        for Frame { name, file, origin, .. } in &table.entries {
            crates.learn(name, file.as_deref(), *origin);
        }
        for frame in &mut table.entries {
            if frame.origin == Origin::Own && crates.are_against(&frame.name, frame.file.as_deref())
            {
                frame.origin = Origin::Library;
            }
        }
        let evaluates: Vec<bool> =
            table.entries.iter().map(|frame| origin::evaluates(&frame.name)).collect();
        let mut stacks = Vec::new();
        for (places, values) in profile.stacks() {
            let value = |at: usize| values[at].max(0) as f64;
            let count = match (counts.is_empty(), sample) {
                (false, _) => counts.iter().map(|at| value(*at)).sum(),
                (true, Some(sample)) => value(weight) / sample,
                // At least one. More would make differences certain that may be chance.
                (true, None) => 1.0,
            };
            let count = count.max(1.0);
            let frames = places.iter().rev().flat_map(|place| &frames_of[*place as usize]);
            let frames: Vec<u32> = frames.copied().collect();
            if value(weight) > 0.0 && !frames.iter().any(|frame| evaluates[*frame as usize]) {
                stacks.push(Stack { frames, weight: value(weight), count });
            }
        }
        let total = stacks.iter().map(|stack| stack.weight).sum();
        let kind = format!("{} {}", types[weight].0, types[weight].1);
        let is_exact = EXACT.iter().any(|exact| kind.starts_with(exact));
        Some(Self { frames: table.entries, stacks, total, kind, is_exact })
    }
}

/// Frames of a location, outermost first.
fn frames_at<'s>(
    table: &mut Interner<Frame>,
    image: &str,
    address: u64,
    lines: impl DoubleEndedIterator<Item = (&'s str, &'s str, i64)>,
) -> Vec<u32> {
    let mut frames = Vec::new();
    for (name, file, line) in lines.rev() {
        let is_inlined = !frames.is_empty();
        frames.push(table.id(Frame {
            name: name.to_owned(),
            file: Some(file).filter(|file| !file.is_empty()).map(str::to_owned),
            line: u32::try_from(line).ok().filter(|line| *line > 0),
            is_gone: false,
            is_inlined,
            origin: origin(image, name, file),
        }));
    }
    if frames.is_empty() {
        let image_name = image.rsplit('/').next().unwrap_or(image);
        let name = format!("{image_name}+{address:#x}");
        let origin = origin(image, &name, "");
        let (file, line) = (None, None);
        let (is_gone, is_inlined) = (false, false);
        frames.push(table.id(Frame { name, file, line, is_gone, is_inlined, origin }));
    }
    frames
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};
    use prost::Message as _;

    use super::*;
    use crate::proto;

    /// Parses stacks like `own;lib:f;[kernel]:g count`, with samples of 1 ms. `~f` is inlined.
    pub(crate) fn side(stacks: &str) -> Side {
        let mut table = Interner::default();
        let mut found = Vec::new();
        for line in stacks.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (stack, count) = line.rsplit_once(' ').expect("a count");
            let count: f64 = count.parse().expect("a number");
            let frames = stack.split(';').map(|text| {
                let (origin, text) = match text.split_once(':') {
                    Some(("lib", text)) => (Origin::Library, text),
                    Some(("kernel", text)) => (Origin::Kernel, text),
                    Some(("state", text)) => (Origin::State, text),
                    _ => (Origin::Own, text),
                };
                let (name, line) = text.split_once('@').unwrap_or((text, ""));
                let is_inlined = name.starts_with('~');
                let name = name.trim_start_matches('~').to_owned();
                let line = line.parse().ok();
                let file = line.map(|_: u32| "src/lib.rs".to_owned());
                table.id(Frame { name, file, line, is_gone: false, is_inlined, origin })
            });
            found.push(Stack { frames: frames.collect(), weight: count * 1e6, count });
        }
        let total = found.iter().map(|stack| stack.weight).sum();
        let kind = "wall nanoseconds".to_owned();
        Side { frames: table.entries, stacks: found, total, kind, is_exact: false }
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let check = |bytes: &[u8], expected: &str| {
            let error = Side::read("earlier", bytes).expect_err("not a profile").to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(b"", "no samples");
        check(b"no pprof", "not a pprof profile");
        check(&[0x1f, 0x8b, 8], "cannot be decompressed");
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&[0; 2000]).expect("written");
        let packed = packed.finish().expect("packed");
        let error = Side::read_within("earlier", &packed, 1999).expect_err("it is too large");
        assert!(error.to_string().contains("exceeds the limit of 1999 bytes"), "{error}");
        let error = Side::read_within("earlier", &[0; 2000], 1999).expect_err("it is too large");
        assert!(error.to_string().contains("exceeds the limit of 1999 bytes"), "{error}");
        let mut message = proto::Profile {
            sample_type: vec![proto::ValueType { r#type: 1, unit: 2 }],
            string_table: vec![String::new(), "samples".into(), "count".into()],
            sample: vec![proto::Sample { location_id: vec![7], value: vec![1], label: Vec::new() }],
            ..proto::Profile::default()
        };
        check(&message.encode_to_vec(), "location 7, which is missing");
        message.sample[0].location_id.clear();
        Side::read("earlier", &message.encode_to_vec()).expect("a stack may be empty");
        message.sample_type[0].unit = 9;
        check(&message.encode_to_vec(), "string 9, which is missing");
    }

    #[test]
    fn samples_are_counted_by_their_period() {
        let texts = ["", "cpu", "nanoseconds", "samples", "count", "bytes"];
        let kind = |(name, unit)| proto::ValueType { r#type: name, unit };
        let check = |types: &[(i64, i64)], period: (i64, i64), value: &[i64], expected: f64| {
            let message = proto::Profile {
                sample_type: types.iter().copied().map(kind).collect(),
                string_table: texts.map(str::to_owned).to_vec(),
                sample: vec![proto::Sample { value: value.to_vec(), ..proto::Sample::default() }],
                period_type: Some(kind((1, period.0))),
                period: period.1,
                ..proto::Profile::default()
            };
            let side = Side::read("later", &message.encode_to_vec()).expect("a profile");
            assert_eq!(side.samples(), expected, "{types:?} {period:?}");
        };
        check(&[(3, 4), (1, 2)], (2, 10_000_000), &[7, 40_000_000], 7.0);
        check(&[(1, 2)], (2, 10_000_000), &[40_000_000], 4.0);
        check(&[(1, 2)], (2, 0), &[40_000_000], 1.0);
        check(&[(1, 2)], (5, 10_000_000), &[40_000_000], 1.0);
        check(&[(3, 4)], (2, 10_000_000), &[40], 40.0);
    }

    #[test]
    fn profiles_that_cannot_be_compared() {
        let [one, other] = [side("a;b 1"), side("c;d 1")];
        let error = one.check_comparable(&other).expect_err("nothing in common").to_string();
        assert!(error.contains("different programs"), "{error}");
        let cpu = Side { kind: "cpu nanoseconds".into(), ..side("a;b 1") };
        let error = one.check_comparable(&cpu).expect_err("other kinds").to_string();
        assert!(error.contains("wall nanoseconds and cpu nanoseconds"), "{error}");
        one.check_comparable(&side("a;x 3")).expect("a is in both");
    }
}
