//! One of the two profiles: pprof, as stacks of functions with lines.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashSet},
};

use prost::Message as _;
use rustc_hash::FxHashMap;

use crate::{
    names,
    origin::{self, Origin, origin},
    pprof::{BYTES_MAX, Dangling, Tables, UnpackError, unpacked},
    proto,
};

/// Why a profile cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("the {side} profile: {source}")]
    Unpack { side: &'static str, source: UnpackError },
    #[error("the {side} profile is no pprof profile: {source}")]
    Pprof { side: &'static str, source: prost::DecodeError },
    #[error("the {side} profile is damaged: {source}")]
    Dangling { side: &'static str, source: Dangling },
    #[error("the {side} profile has no samples")]
    NoSamples { side: &'static str },
    #[error(
        "the profiles count different things, {before} and {after}: only two of the same kind can be compared"
    )]
    Kinds { before: String, after: String },
    #[error("the profiles have no function in common: they are of different programs")]
    Programs,
}

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
    pub fn read(side: &'static str, bytes: &[u8]) -> Result<Self, ReadError> {
        Self::read_within(side, bytes, BYTES_MAX)
    }

    /// Same as [`read`](Self::read), with a maximum decompressed size.
    pub fn read_within(side: &'static str, bytes: &[u8], most: u64) -> Result<Self, ReadError> {
        let unpacked =
            unpacked(bytes, most).map_err(|source| ReadError::Unpack { side, source })?;
        let message = proto::Profile::decode(&*unpacked)
            .map_err(|source| ReadError::Pprof { side, source })?;
        Self::of_message(side, &message, None)
    }

    /// Same for a decoded profile. `shown` selects the sample type of the weights, if not the default.
    pub fn of_message(
        side: &'static str,
        message: &proto::Profile,
        shown: Option<&str>,
    ) -> Result<Self, ReadError> {
        let read = Reader { tables: Tables::new(message), shown }.side();
        let read = read.map_err(|source| ReadError::Dangling { side, source })?;
        read.filter(|read| read.total > 0.0).ok_or(ReadError::NoSamples { side })
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

    /// A profile of counted stacks, `outermost;…;innermost`, as in collapsed stacks: without lines, and with
    /// origins derived from names. `kind` is the counted type and its unit: `samples count`.
    pub fn of_stacks<'s>(kind: &str, counts: impl Iterator<Item = (&'s str, u64)>) -> Self {
        let mut table = FrameTable::default();
        let stacks = counts.map(|(stack, count)| {
            let frames = stack.split(';').map(|name| {
                let image = if name.ends_with("_[k]") { "[kernel]" } else { "" };
                let name = name.strip_suffix("_[k]").unwrap_or(name);
                let origin = origin(image, name, "");
                table.id(Frame {
                    name: name.to_owned(),
                    file: None,
                    line: None,
                    origin,
                    is_gone: false,
                    is_inlined: false,
                })
            });
            let frames = frames.collect();
            let weight = count as f64;
            // For times, the number of blocks is unknown.
            let count = if kind.ends_with(" count") { weight } else { 1.0 };
            Stack { frames, weight, count }
        });
        let stacks: Vec<Stack> = stacks.collect();
        let total = stacks.iter().map(|stack| stack.weight).sum();
        Self { frames: table.frames, stacks, total, kind: kind.to_owned(), is_exact: false }
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

    pub(crate) fn check_comparable(&self, other: &Self) -> Result<(), ReadError> {
        if self.kind != other.kind {
            let (before, after) = (self.kind.clone(), other.kind.clone());
            return Err(ReadError::Kinds { before, after });
        }
        let known: HashSet<_> = self.own().collect();
        let has_none = known.is_empty() || other.own().next().is_none();
        match has_none || other.own().any(|name| known.contains(&name)) {
            true => Ok(()),
            false => Err(ReadError::Programs),
        }
    }

    fn own(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let own = self.frames.iter().filter(|frame| frame.origin == Origin::Own);
        own.map(|frame| names::plain(&frame.name))
    }
}

struct Reader<'a> {
    tables: Tables<'a>,
    shown: Option<&'a str>,
}

impl Reader<'_> {
    /// `None` if there are no values.
    fn side(&self) -> Result<Option<Side>, Dangling> {
        let Some((weight, counts, kind)) = self.values()? else { return Ok(None) };
        let message = self.tables.message;
        let mut table = FrameTable::default();
        let mut of_location = FxHashMap::default();
        for location in &message.location {
            of_location.insert(location.id, self.frames(location, &mut table)?);
        }
        let evaluates: Vec<bool> =
            table.frames.iter().map(|frame| origin::evaluates(&frame.name)).collect();
        let mut stacks = Vec::with_capacity(message.sample.len());
        for sample in &message.sample {
            let value = |at: usize| sample.value.get(at).copied().unwrap_or(0).max(0) as f64;
            let weight = value(weight);
            if weight <= 0.0 {
                continue;
            }
            let count = counts.iter().map(|at| value(*at)).sum::<f64>().max(1.0);
            let mut frames = Vec::new();
            for id in sample.location_id.iter().rev() {
                let missing = Dangling { table: "location", id: (*id).into() };
                let found = of_location.get(id).ok_or(missing)?;
                frames.extend_from_slice(found);
            }
            if !frames.iter().any(|frame| evaluates[*frame as usize]) {
                stacks.push(Stack { frames, weight, count });
            }
        }
        let total = stacks.iter().map(|stack| stack.weight).sum();
        let is_exact = EXACT.iter().any(|exact| kind.starts_with(exact));
        Ok(Some(Side { frames: table.frames, stacks, total, kind, is_exact }))
    }

    /// Index of the weight (the default value, or else the last), indices of counts, and the type of the weight.
    fn values(&self) -> Result<Option<(usize, Vec<usize>, String)>, Dangling> {
        let message = self.tables.message;
        let (types, default) = (&message.sample_type, message.default_sample_type);
        let is_shown = |it: &proto::ValueType| match self.shown {
            Some(name) => self.tables.string(it.r#type) == Ok(name),
            None => default != 0 && it.r#type == default,
        };
        let shown = types.iter().position(is_shown);
        let Some(weight) = shown.or(types.len().checked_sub(1)) else { return Ok(None) };
        let mut counts = Vec::new();
        for (at, known) in types.iter().enumerate() {
            if self.tables.string(known.unit)? == "count" && at != weight {
                counts.push(at);
            }
        }
        if counts.is_empty() {
            counts.push(weight);
        }
        let (name, unit) = (types[weight].r#type, types[weight].unit);
        let kind = format!("{} {}", self.tables.string(name)?, self.tables.string(unit)?);
        Ok(Some((weight, counts, kind)))
    }

    /// Frames of a location, outermost first.
    fn frames(
        &self,
        location: &proto::Location,
        table: &mut FrameTable,
    ) -> Result<Vec<u32>, Dangling> {
        let tables = &self.tables;
        let image = tables.file(location.mapping_id)?;
        if location.line.is_empty() {
            let image_name = image.rsplit('/').next().unwrap_or(image);
            let name = format!("{image_name}+{:#x}", location.address);
            let origin = origin(image, &name, "");
            return Ok(vec![table.id(Frame {
                name,
                file: None,
                line: None,
                is_gone: false,
                is_inlined: false,
                origin,
            })]);
        }
        let mut frames = Vec::with_capacity(location.line.len());
        for line in location.line.iter().rev() {
            let function = tables.function(line.function_id)?;
            let (name, file) = (tables.string(function.name)?, tables.string(function.filename)?);
            frames.push(table.id(Frame {
                name: name.to_owned(),
                file: Some(file).filter(|file| !file.is_empty()).map(str::to_owned),
                line: u32::try_from(line.line).ok().filter(|line| *line > 0),
                is_gone: false,
                is_inlined: !frames.is_empty(),
                origin: origin(image, name, file),
            }));
        }
        Ok(frames)
    }
}

#[derive(Default)]
struct FrameTable {
    frames: Vec<Frame>,
    ids: FxHashMap<Frame, u32>,
}

impl FrameTable {
    fn id(&mut self, frame: Frame) -> u32 {
        if let Some(known) = self.ids.get(&frame) {
            return *known;
        }
        // A profile of 1 GiB has fewer frames.
        let id = u32::try_from(self.frames.len()).unwrap_or(u32::MAX);
        self.frames.push(frame.clone());
        self.ids.insert(frame, id);
        id
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    /// Parses stacks like `own;lib:f;[kernel]:g count`, with samples of 1 ms. `~f` is inlined.
    pub(crate) fn side(stacks: &str) -> Side {
        let mut table = FrameTable::default();
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
        Side { frames: table.frames, stacks: found, total, kind, is_exact: false }
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let check = |bytes: &[u8], expected: &str| {
            let error = Side::read("earlier", bytes).expect_err("it is no profile").to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(b"", "no samples");
        check(b"no pprof", "no pprof profile");
        check(&[0x1f, 0x8b, 8], "unpacking failed");
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&[0; 2000]).expect("written");
        let packed = packed.finish().expect("packed");
        let error = Side::read_within("earlier", &packed, 1999).expect_err("it is too large");
        assert!(error.to_string().contains("more than 1999 bytes"), "{error}");
        let error = Side::read_within("earlier", &[0; 2000], 1999).expect_err("it is too large");
        assert!(error.to_string().contains("more than 1999 bytes"), "{error}");
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
