//! Stacks of one or more profiles with the same sample types: read, added up, merged, and written as one profile.

use anyhow::{Context as _, bail, ensure};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    interner::Interner,
    pprof::{Dangling, Tables, decoded, unpacked},
    proto::{Function, Line, Location, Mapping, Profile, Sample, ValueType},
    side::Side,
};

/// Maximum total frames of all stacks, including inlined functions.
const FRAMES_MAX: usize = 16 << 20;

/// Function for stacks beyond the limit.
const OTHERS: &str = "(other stacks)";

/// Function for rarely called functions.
const RARE: &str = "(rarely called)";

/// A code location. Addresses change with each mapping, so they are used only without a function.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// File and build id.
    mapping: (u32, u32),
    /// Offset in the file.
    pub(crate) address: u64,
    /// Function and line, innermost first.
    lines: Vec<(u32, i64)>,
}

/// Stacks with one value for each sample type, without duplicates. Labels of samples, and fields that no reader here
/// needs, are dropped.
#[derive(Debug, Default)]
pub struct Stacks {
    /// Name and unit of each sample type.
    types: Vec<(u32, u32)>,
    shown: u32,
    period: (u32, u32, i64),
    texts: Interner<String>,
    /// Name and file.
    functions: Interner<(u32, u32)>,
    places: Interner<Place>,
    /// Locations, innermost first, to an index of `values`.
    stacks: FxHashMap<Box<[u32]>, usize>,
    /// For each stack, one per type.
    values: Vec<i64>,
    frames: usize,
    /// Overall start and end, in nanoseconds since 1970.
    span_ns: Option<(i64, i64)>,
}

impl Stacks {
    /// Reads a pprof file, gzip'd or not, of at most `most` decompressed bytes.
    pub fn read(bytes: &[u8], most: u64) -> anyhow::Result<Self> {
        let mut stacks = Self::default();
        stacks.add_file(bytes, most)?;
        Ok(stacks)
    }

    /// Adds a pprof file, as [`read`](Self::read) does.
    pub fn add_file(&mut self, bytes: &[u8], most: u64) -> anyhow::Result<()> {
        self.add(&decoded(&unpacked(bytes, most)?)?)
    }

    /// Adds a profile. After an error, a part of it may have been added.
    pub fn add(&mut self, message: &Profile) -> anyhow::Result<()> {
        self.add_some(message, message.sample.iter())
    }

    /// Adds some samples of a profile, for example those with a label.
    pub fn add_some<'m>(
        &mut self,
        message: &'m Profile,
        samples: impl Iterator<Item = &'m Sample>,
    ) -> anyhow::Result<()> {
        self.add_below(message, samples, None)
    }

    /// Adds some samples, below a frame with the text of that label, if a sample has it.
    pub fn add_below<'m>(
        &mut self,
        message: &'m Profile,
        samples: impl Iterator<Item = &'m Sample>,
        label: Option<&str>,
    ) -> anyhow::Result<()> {
        let tables = Tables::new(message);
        self.check_types(&tables)?;
        let locations: FxHashMap<_, _> = message.location.iter().map(|it| (it.id, it)).collect();
        let mut known: FxHashMap<u64, u32> = FxHashMap::default();
        let mut mappings = FxHashMap::default();
        let mut stack = Vec::new();
        for sample in samples {
            let (values, types) = (sample.value.len(), self.types.len());
            ensure!(
                values == types,
                "a sample has {values} values, and the profile {types} sample types"
            );
            stack.clear();
            for id in &sample.location_id {
                let place = match known.get(id) {
                    Some(place) => *place,
                    None => {
                        let missing = Dangling { table: "location", id: (*id).into() };
                        let location = locations.get(id).ok_or(missing)?;
                        let place = self.place(&tables, location, &mut mappings)?;
                        known.insert(*id, place);
                        place
                    }
                };
                stack.push(place);
            }
            for it in sample.label.iter().filter(|it| label.is_some() && it.num == 0) {
                if label == Some(tables.string(it.key)?) {
                    stack.push(self.unknown(tables.string(it.str)?));
                }
            }
            self.count(&stack, &sample.value);
        }
        let end = message.time_nanos.saturating_add(message.duration_nanos.max(0));
        self.cover((message.time_nanos, end));
        Ok(())
    }

    /// Adds all of another sum. After an error, nothing was added.
    pub fn merge(&mut self, other: Self) -> anyhow::Result<()> {
        if self.is_empty() {
            *self = other;
            return Ok(());
        }
        if other.is_empty() {
            return Ok(());
        }
        let texts: Vec<u32> = other.texts.entries.iter().map(|text| self.text(text)).collect();
        let both = |(a, b): (u32, u32)| (texts[a as usize], texts[b as usize]);
        let types: Vec<_> = other.types.iter().map(|it| both(*it)).collect();
        self.check_same(&types)?;
        let function = |it: &(u32, u32)| self.functions.id(both(*it));
        let functions: Vec<u32> = other.functions.entries.iter().map(function).collect();
        let place = |place: &Place| {
            let lines =
                place.lines.iter().map(|(function, line)| (functions[*function as usize], *line));
            let (mapping, lines) = (both(place.mapping), lines.collect());
            self.places.id(Place { mapping, address: place.address, lines })
        };
        let places: Vec<u32> = other.places.entries.iter().map(place).collect();
        for (stack, values) in other.stacks() {
            let stack: Vec<u32> = stack.iter().map(|place| places[*place as usize]).collect();
            self.count(&stack, values);
        }
        if let Some(span_ns) = other.span_ns {
            self.cover(span_ns);
        }
        Ok(())
    }

    fn cover(&mut self, (start_ns, end_ns): (i64, i64)) {
        let (first_ns, last_ns) = self.span_ns.unwrap_or((start_ns, end_ns));
        self.span_ns = Some((first_ns.min(start_ns), last_ns.max(end_ns)));
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// Sum of all stacks, for each sample type.
    pub fn sums(&self) -> Vec<i64> {
        let mut sums = vec![0_i64; self.types.len()];
        for values in self.values.chunks_exact(self.types.len().max(1)) {
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = sum.saturating_add(*value));
        }
        sums
    }

    /// Name and unit of each sample type.
    pub fn types(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.types.iter().map(|(name, unit)| (self.text_of(*name), self.text_of(*unit)))
    }

    /// Unit of the distance between samples, and that distance; 0 if the profile does not have it.
    pub(crate) fn period(&self) -> (&str, i64) {
        let (_, unit, period) = self.period;
        (self.text_of(unit), period)
    }

    /// Name of the default sample type; empty if the profile has none.
    pub fn shown(&self) -> &str {
        self.text_of(self.shown)
    }

    /// One sample type as weights of functions, for pictures and comparisons: `shown`, or the default. `side` is
    /// `earlier` or `later`, for errors.
    pub fn side(&self, side: &'static str, shown: Option<&str>) -> anyhow::Result<Side> {
        let found = Side::of(self, shown).filter(|it| it.total > 0.0);
        found.with_context(|| format!("the {side} profile has no samples"))
    }

    fn text_of(&self, number: u32) -> &str {
        self.texts.entries.get(number as usize).map_or("", String::as_str)
    }

    /// All locations in the order of their numbers: the mapped file, the address, and name, file and line of each
    /// function, innermost first.
    pub(crate) fn places(
        &self,
    ) -> impl Iterator<Item = (&str, u64, impl DoubleEndedIterator<Item = (&str, &str, i64)>)> {
        self.places.entries.iter().map(|place| {
            let lines = place.lines.iter().map(|(function, line)| {
                let (name, file) = self.functions.entries[*function as usize];
                (self.text_of(name), self.text_of(file), *line)
            });
            (self.text_of(place.mapping.0), place.address, lines)
        })
    }

    /// Locations, innermost first, and values of each stack, in order of addition.
    pub(crate) fn stacks(&self) -> impl Iterator<Item = (&[u32], &[i64])> {
        let mut stacks: Vec<(&[u32], usize)> =
            self.stacks.iter().map(|(stack, at)| (&**stack, *at)).collect();
        stacks.sort_unstable_by_key(|(_, at)| *at);
        let width = self.types.len();
        stacks.into_iter().map(move |(stack, at)| (stack, &self.values[at * width..][..width]))
    }

    /// Merges rare frames: if a function with its callees has less than `share` of all types together, it becomes
    /// `(rarely called)` below its caller. The result is small, however much was added.
    #[must_use]
    pub fn without_rare(mut self, share: f64) -> Self {
        let width = self.types.len();
        let stacks = std::mem::take(&mut self.stacks);
        let values = std::mem::take(&mut self.values);
        let of = |at: usize, of: usize| values[at * width + of] as f64;
        let wholes: Vec<f64> = (0..width)
            .map(|number| stacks.values().map(|at| of(*at, number)).sum::<f64>().max(1.0))
            .collect();
        // Summed over types: a stack that is rare in one type may be all of another.
        let weight =
            |at: usize| (0..width).map(|number| of(at, number) / wholes[number]).sum::<f64>();
        // Callers by tree node, 0 for the root.
        let mut nodes: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let mut weights: Vec<f64> = vec![0.0];
        for (stack, at) in &stacks {
            let mut node = 0;
            for place in stack.iter().rev() {
                node = *nodes.entry((node, *place)).or_insert_with(|| {
                    weights.push(0.0);
                    u32::try_from(weights.len() - 1).unwrap_or(u32::MAX)
                });
                weights[node as usize] += weight(*at);
            }
        }
        let rare = self.unknown(RARE);
        self.frames = 0;
        let mut sorted: Vec<_> = stacks.iter().collect();
        sorted.sort_unstable_by_key(|(_, at)| **at);
        for (stack, at) in sorted {
            let (mut node, mut kept) = (0, Vec::with_capacity(stack.len()));
            for place in stack.iter().rev() {
                node = nodes.get(&(node, *place)).copied().unwrap_or(0);
                if weights[node as usize] < share {
                    kept.push(rare);
                    break;
                }
                kept.push(*place);
            }
            kept.reverse();
            self.count(&kept, &values[at * width..][..width]);
        }
        self
    }

    /// Converts the sum to a profile.
    pub fn message(&self) -> Profile {
        // The schema requires that tables begin with the empty text; this one may not.
        let text = |number: u32| i64::from(number) + 1;
        let kind = |(name, unit): (u32, u32)| ValueType { r#type: text(name), unit: text(unit) };
        let mut mappings = Vec::new();
        let mut mapping_ids = FxHashMap::default();
        let mut locations = Vec::with_capacity(self.places.entries.len());
        let used: FxHashSet<u32> = self.stacks.keys().flat_map(|it| it.iter().copied()).collect();
        for (number, place) in (1..).zip(&self.places.entries) {
            // Rare locations were dropped.
            if !used.contains(&(number as u32 - 1)) {
                continue;
            }
            let id = *mapping_ids.entry(place.mapping).or_insert_with(|| {
                let (filename, build_id) = (text(place.mapping.0), text(place.mapping.1));
                let id = mappings.len() as u64 + 1;
                mappings.push(Mapping { id, filename, build_id, ..Mapping::default() });
                id
            });
            let line = |&(function, line): &(u32, i64)| Line {
                function_id: u64::from(function) + 1,
                line,
            };
            let line = place.lines.iter().map(line).collect();
            locations.push(Location { id: number, mapping_id: id, address: place.address, line });
        }
        let functions = (1..).zip(&self.functions.entries).map(|(id, (name, file))| Function {
            id,
            name: text(*name),
            system_name: text(*name),
            filename: text(*file),
        });
        let sample = |(stack, values): (&[u32], &[i64])| Sample {
            location_id: stack.iter().map(|place| u64::from(*place) + 1).collect(),
            value: values.to_vec(),
            label: Vec::new(),
        };
        let (start, end) = self.span_ns.unwrap_or_default();
        let (period_name, period_unit, period) = self.period;
        Profile {
            sample_type: self.types.iter().map(|it| kind(*it)).collect(),
            sample: self.stacks().map(sample).collect(),
            mapping: mappings,
            location: locations,
            function: functions.collect(),
            string_table: std::iter::once(String::new())
                .chain(self.texts.entries.clone())
                .collect(),
            time_nanos: start,
            duration_nanos: end.saturating_sub(start),
            period_type: Some(kind((period_name, period_unit))),
            period,
            comment: Vec::new(),
            default_sample_type: text(self.shown),
        }
    }

    fn check_types(&mut self, tables: &Tables<'_>) -> anyhow::Result<()> {
        let mut types = Vec::new();
        for it in &tables.message.sample_type {
            types.push((self.text(tables.string(it.r#type)?), self.text(tables.string(it.unit)?)));
        }
        if self.types.is_empty() {
            self.shown = self.text(tables.string(tables.message.default_sample_type)?);
            let period = tables.message.period_type.unwrap_or_default();
            let name = self.text(tables.string(period.r#type)?);
            let unit = self.text(tables.string(period.unit)?);
            self.period = (name, unit, tables.message.period);
            self.types = types;
            return Ok(());
        }
        self.check_same(&types)
    }

    fn check_same(&self, types: &[(u32, u32)]) -> anyhow::Result<()> {
        let names = |types: &[(u32, u32)]| {
            let names = types.iter().map(|(name, _)| self.text_of(*name));
            names.collect::<Vec<_>>().join(" and ")
        };
        if self.types != types {
            let (own, others) = (names(&self.types), names(types));
            bail!("the profiles have different sample types, {own} and {others}");
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> u32 {
        self.texts.id_of(text)
    }

    fn function(&mut self, name: &str, file: &str) -> u32 {
        let key = (self.text(name), self.text(file));
        self.functions.id(key)
    }

    fn place(
        &mut self,
        tables: &Tables<'_>,
        location: &Location,
        mappings: &mut FxHashMap<u64, ((u32, u32), u64)>,
    ) -> Result<u32, Dangling> {
        let (mapping, start) = match mappings.get(&location.mapping_id) {
            Some(known) => *known,
            None => {
                let known = self.mapping(tables, location.mapping_id)?;
                mappings.insert(location.mapping_id, known);
                known
            }
        };
        let mut lines = Vec::with_capacity(location.line.len());
        for line in &location.line {
            let function = tables.function(line.function_id)?;
            let (name, file) = (tables.string(function.name)?, tables.string(function.filename)?);
            lines.push((self.function(name, file), line.line));
        }
        let address = if lines.is_empty() { location.address.wrapping_sub(start) } else { 0 };
        Ok(self.places.id(Place { mapping, address, lines }))
    }

    /// File and build id of a mapping, and the address of the file's start; empty for 0.
    fn mapping(&mut self, tables: &Tables<'_>, id: u64) -> Result<((u32, u32), u64), Dangling> {
        let (file, build, start) = match id {
            0 => ("", "", 0),
            id => {
                let it = tables.mapping(id)?;
                let start = it.memory_start.wrapping_sub(it.file_offset);
                (tables.string(it.filename)?, tables.string(it.build_id)?, start)
            }
        };
        Ok(((self.text(file), self.text(build)), start))
    }

    fn count(&mut self, stack: &[u32], values: &[i64]) {
        let at = match self.stacks.get(stack) {
            Some(at) => *at,
            None => {
                let frames =
                    stack.iter().map(|place| self.places.entries[*place as usize].lines.len());
                let frames = frames.sum::<usize>() + 1;
                match self.frames + frames > FRAMES_MAX {
                    true => self.others(),
                    false => {
                        self.frames += frames;
                        self.new_stack(stack)
                    }
                }
            }
        };
        for (sum, value) in self.values[at * values.len()..].iter_mut().zip(values) {
            *sum = sum.saturating_add(*value);
        }
    }

    fn others(&mut self) -> usize {
        let stack = [self.unknown(OTHERS)];
        match self.stacks.get(&stack[..]) {
            Some(at) => *at,
            None => self.new_stack(&stack),
        }
    }

    /// The location of a placeholder function.
    fn unknown(&mut self, name: &str) -> u32 {
        let (function, nothing) = (self.function(name, ""), self.text(""));
        let lines = vec![(function, 0)];
        self.places.id(Place { mapping: (nothing, nothing), address: 0, lines })
    }

    fn new_stack(&mut self, stack: &[u32]) -> usize {
        let at = self.stacks.len();
        self.stacks.insert(stack.into(), at);
        self.values.resize(self.values.len() + self.types.len(), 0);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A profile of stacks `outermost;innermost count`, with code at address `at`.
    fn profile(stacks: &str, start_ns: i64, at: u64) -> Profile {
        let mut strings = vec![String::new(), "cpu".into(), "nanoseconds".into(), "/bin/a".into()];
        let mut message = Profile {
            sample_type: vec![ValueType { r#type: 1, unit: 2 }],
            mapping: vec![Mapping { id: 9, memory_start: at, filename: 3, ..Mapping::default() }],
            time_nanos: start_ns,
            duration_nanos: 10,
            ..Profile::default()
        };
        for line in stacks.lines() {
            let (stack, count) = line.rsplit_once(' ').expect("a count");
            let mut ids: Vec<u64> = Vec::new();
            for name in stack.split(';') {
                strings.push(name.to_owned());
                let id = strings.len() as u64;
                let function = Function { id, name: id as i64 - 1, ..Function::default() };
                message.function.push(function);
                let line =
                    if name == "?" { vec![] } else { vec![Line { function_id: id, line: 1 }] };
                message.location.push(Location { id, mapping_id: 9, address: at + 16, line });
                ids.insert(0, id);
            }
            let value = vec![count.parse().expect("a number")];
            message.sample.push(Sample { location_id: ids, value, label: Vec::new() });
        }
        message.string_table = strings;
        message
    }

    fn stacks(message: &Profile) -> Vec<(String, f64)> {
        let mut stacks = Stacks::default();
        stacks.add(message).expect("added");
        let side = stacks.side("earlier", None).expect("a profile");
        let names = |stack: &crate::side::Stack| {
            let names = stack.frames.iter().map(|frame| &*side.frames[*frame as usize].name);
            names.collect::<Vec<_>>().join(";")
        };
        let mut all: Vec<_> = side.stacks.iter().map(|it| (names(it), it.weight)).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    #[test]
    fn stacks_that_are_the_same_are_one() {
        let mut total = Stacks::default();
        assert!(total.is_empty());
        total.add(&profile("main;a 3\nmain;b 4\nmain;? 1", 100, 0x1000)).expect("added");
        total.add(&profile("main;b 5\nmain;? 2", 50, 0x7000)).expect("added");
        let message = total.message();
        let expected = [("main;a", 3.0), ("main;a+0x10", 3.0), ("main;b", 9.0)];
        let expected = expected.map(|(stack, weight)| (stack.to_owned(), weight));
        assert_eq!(stacks(&message), expected);
        assert_eq!((message.time_nanos, message.duration_nanos), (50, 60));
        // A sum can be added again.
        let mut again = Stacks::default();
        again.add(&message).expect("added");
        assert_eq!(stacks(&again.message()), expected);
        assert_eq!(again.message().mapping.len(), 1);
    }

    #[test]
    fn merging_gives_the_same_as_adding() {
        let profiles = [
            profile("main;a 3\nmain;b 4\nmain;? 1", 100, 0x1000),
            profile("x;a 2\nmain;b 5\nmain;? 2", 50, 0x7000),
        ];
        let mut added = Stacks::default();
        let mut merged = Stacks::default();
        for profile in &profiles {
            added.add(profile).expect("added");
            let mut one = Stacks::default();
            one.add(profile).expect("added");
            merged.merge(one).expect("merged");
        }
        merged.merge(Stacks::default()).expect("nothing to merge");
        assert_eq!(stacks(&merged.message()), stacks(&added.message()));
        assert_eq!(merged.span_ns, added.span_ns);
        let mut other = profiles[0].clone();
        other.sample_type[0].r#type = 2;
        let mut stacks = Stacks::default();
        stacks.add(&other).expect("added");
        let error = merged.merge(stacks).expect_err("refused").to_string();
        assert!(error.contains("cpu and nanoseconds"), "{error}");
    }

    #[test]
    fn labels_become_outermost_frames() {
        let mut message = profile("main;a 3\nmain;a 4", 0, 0);
        message.string_table.extend(["process".to_owned(), "sh".to_owned()]);
        let at = message.string_table.len() as i64;
        message.sample[1].label =
            vec![crate::proto::Label { key: at - 2, str: at - 1, ..Default::default() }];
        let mut found = Stacks::default();
        found.add_below(&message, message.sample.iter(), Some("process")).expect("added");
        let expected = [("main;a", 3.0), ("sh;main;a", 4.0)];
        let expected = expected.map(|(stack, weight)| (stack.to_owned(), weight));
        assert_eq!(stacks(&found.message()), expected);
    }

    #[test]
    fn what_is_rare_is_one_frame_of_its_caller() {
        let check = |share: f64, expected: &[(&str, f64)]| {
            let mut total = Stacks::default();
            total
                .add(&profile("main;a;b 90\nmain;a;c 5\nmain;a;d;e 4\nx;y 1", 0, 0))
                .expect("added");
            let found = stacks(&total.without_rare(share).message());
            let owned = expected.iter().map(|(stack, weight)| ((*stack).to_owned(), *weight));
            assert_eq!(found, owned.collect::<Vec<_>>(), "{share}");
        };
        check(0.0, &[("main;a;b", 90.0), ("main;a;c", 5.0), ("main;a;d;e", 4.0), ("x;y", 1.0)]);
        check(
            0.05,
            &[
                ("(rarely called)", 1.0),
                ("main;a;(rarely called)", 4.0),
                ("main;a;b", 90.0),
                ("main;a;c", 5.0),
            ],
        );
        check(2.0, &[("(rarely called)", 100.0)]);
        assert!(Stacks::default().without_rare(0.5).is_empty());
    }

    #[test]
    fn what_is_rare_in_one_type_may_be_all_of_another() {
        let mut message = profile("main;kept 100\nmain;freed 1\nmain;rare 1", 0, 0);
        message.sample_type.push(message.sample_type[0]);
        let others = [0, 1000, 0];
        for (sample, other) in message.sample.iter_mut().zip(others) {
            sample.value.push(other);
        }
        let mut total = Stacks::default();
        total.add(&message).expect("added");
        let message = total.without_rare(0.05).message();
        let mut values: Vec<_> = message.sample.iter().map(|it| it.value.clone()).collect();
        values.sort_unstable();
        assert_eq!(values, [[1, 0], [1, 1000], [100, 0]]);
        assert!(message.string_table.iter().any(|text| text == "freed"));
    }

    #[test]
    fn what_cannot_be_added_is_said() {
        let check = |change: &dyn Fn(&mut Profile), expected: &str| {
            let mut total = Stacks::default();
            total.add(&profile("main;a 3", 0, 0)).expect("added");
            let mut message = profile("main;a 3", 0, 0);
            change(&mut message);
            let error = total.add(&message).expect_err("refused").to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&|it| it.sample[0].value.clear(), "0 values, and the profile 1 sample types");
        check(&|it| it.sample[0].location_id[0] = 77, "location 77, which is missing");
        check(&|it| it.location[0].mapping_id = 3, "mapping 3, which is missing");
        check(&|it| it.function[0].name = -1, "string -1, which is missing");
        check(&|it| it.sample_type[0].r#type = 2, "cpu and nanoseconds");
    }

    #[test]
    fn sums_do_not_overflow() {
        let mut total = Stacks::default();
        for _ in 0..2 {
            total.add(&profile(&format!("main {}", i64::MAX), i64::MAX, 0)).expect("added");
        }
        assert_eq!(total.message().sample[0].value, [i64::MAX]);
    }
}
