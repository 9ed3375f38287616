//! Reads pprof profiles, ours and others', into the stacks of their collapsed form.

use std::collections::BTreeMap;

use prost::Message;
use rustc_hash::FxHashMap;

use super::{DiffError, Unit};
use wingbeat_pprof::{
    pprof::{Dangling, Tables},
    proto,
};

use crate::export::pprof::{PROCESS_LABEL, Value};
use crate::export::{KERNEL_SUFFIX, sanitized};

/// The sample type that counts samples. Without it, the first type is used.
const COUNTING_TYPE: &str = "samples";
/// If one of these is the default sample type, collapsed stacks hold it.
const OTHER_TYPES: [(Value, Unit); 4] = [
    (Value::OffCpu, Unit::Nanoseconds),
    (Value::Wall, Unit::Nanoseconds),
    (Value::LiveSpace, Unit::Bytes),
    (Value::Grown, Unit::Bytes),
];

/// Sums up all stacks, and returns the unit.
pub(super) fn read(name: &str, bytes: &[u8]) -> Result<(BTreeMap<String, u64>, Unit), DiffError> {
    let message = proto::Profile::decode(bytes)
        .map_err(|source| DiffError::Pprof { name: name.to_owned(), source })?;
    read_message(&message).map_err(|source| DiffError::Dangling { name: name.to_owned(), source })
}

fn read_message(message: &proto::Profile) -> Result<(BTreeMap<String, u64>, Unit), Dangling> {
    let reader = Reader::new(message)?;
    let (value, unit) = reader.counting_value()?;
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for sample in &message.sample {
        let count = sample.value.get(value).and_then(|&value| u64::try_from(value).ok());
        // Differences between profiles have negative values, which have no width.
        let Some(count @ 1..) = count else { continue };
        let sum = counts.entry(reader.stack(sample)?).or_default();
        *sum = sum.saturating_add(count);
    }
    Ok((counts, unit))
}

struct Reader<'a> {
    tables: Tables<'a>,
    /// The joined names of each location, outermost function first.
    locations: FxHashMap<u64, String>,
}

impl<'a> Reader<'a> {
    fn new(message: &'a proto::Profile) -> Result<Self, Dangling> {
        let mut reader = Self { tables: Tables::new(message), locations: FxHashMap::default() };
        for location in &message.location {
            let text = reader.location(location)?;
            reader.locations.insert(location.id, text);
        }
        Ok(reader)
    }

    /// Index of the sample value that counts samples, or the profile's time or memory.
    fn counting_value(&self) -> Result<(usize, Unit), Dangling> {
        let types = &self.tables.message.sample_type;
        let shown_first = self.tables.message.default_sample_type;
        for (position, sample_type) in types.iter().enumerate() {
            let name = self.tables.string(sample_type.r#type)?;
            let unit_name = self.tables.string(sample_type.unit)?;
            let is_this =
                |(value, _): &&(Value, Unit)| value.name() == name && value.unit() == unit_name;
            if sample_type.r#type == shown_first
                && let Some((_, unit)) = OTHER_TYPES.iter().find(is_this)
            {
                return Ok((position, *unit));
            }
        }
        for (position, sample_type) in types.iter().enumerate() {
            if self.tables.string(sample_type.r#type)? == COUNTING_TYPE {
                return Ok((position, Unit::Samples));
            }
        }
        Ok((0, Unit::Samples))
    }

    fn location(&self, location: &proto::Location) -> Result<String, Dangling> {
        let file = self.tables.file(location.mapping_id)?;
        let suffix = if is_kernel(file) { KERNEL_SUFFIX } else { "" };
        if location.line.is_empty() && location.address != 0 {
            let file = file.rsplit('/').next().unwrap_or(file);
            return Ok(format!("{}+{:#x}{suffix}", sanitized(file), location.address));
        }
        let mut text = String::new();
        for line in location.line.iter().rev() {
            let function = self.tables.function(line.function_id)?;
            push_frame(&mut text, &sanitized(self.tables.string(function.name)?));
            text.push_str(suffix);
        }
        Ok(text)
    }

    /// The stack below its process name, if the profile has it.
    fn stack(&self, sample: &proto::Sample) -> Result<String, Dangling> {
        let mut stack = String::new();
        for label in &sample.label {
            if label.num == 0 && self.tables.string(label.key)? == PROCESS_LABEL {
                push_frame(&mut stack, &sanitized(self.tables.string(label.str)?));
            }
        }
        for &id in sample.location_id.iter().rev() {
            let text =
                self.locations.get(&id).ok_or(Dangling { table: "location", id: id.into() })?;
            push_frame(&mut stack, text);
        }
        if stack.is_empty() {
            return Ok(sanitized("").into_owned());
        }
        Ok(stack)
    }
}

fn push_frame(stack: &mut String, frame: &str) {
    if !stack.is_empty() && !frame.is_empty() {
        stack.push(';');
    }
    stack.push_str(frame);
}

/// Whether a mapping is the kernel or one of its modules.
fn is_kernel(file: &str) -> bool {
    file.starts_with("[kernel") || file.ends_with(".ko")
}
