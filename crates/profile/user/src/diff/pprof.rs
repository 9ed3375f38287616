//! Reading pprof profiles, ours and others', into the stacks that their collapsed form would have.

use std::collections::BTreeMap;

use prost::Message;
use rustc_hash::FxHashMap;

use super::{DiffError, Unit};
use wingbeat_difference::proto;

use crate::export::pprof::{NANOSECONDS, PROCESS_LABEL, Value};
use crate::export::{KERNEL_SUFFIX, sanitized};

/// The sample type that counts samples; without it, the first type is taken.
const COUNTING_TYPE: &str = "samples";
/// Where one of these is the type that tools show first, it is what collapsed stacks hold.
const TIME_TYPES: [Value; 2] = [Value::OffCpu, Value::Wall];

/// The counts of all stacks, and what they are.
pub(super) fn read(name: &str, bytes: &[u8]) -> Result<(BTreeMap<String, u64>, Unit), DiffError> {
    let message = proto::Profile::decode(bytes)
        .map_err(|source| DiffError::Pprof { name: name.to_owned(), source })?;
    let reader = Reader::new(name, &message)?;
    let (value, unit) = reader.counting_value()?;
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for sample in &message.sample {
        let count = sample.value.get(value).and_then(|&value| u64::try_from(value).ok());
        // Differences between profiles hold values below 0, which have no width.
        let Some(count @ 1..) = count else { continue };
        let sum = counts.entry(reader.stack(sample)?).or_default();
        *sum = sum.saturating_add(count);
    }
    Ok((counts, unit))
}

/// The message's tables by id.
struct Reader<'a> {
    name: &'a str,
    message: &'a proto::Profile,
    /// The names of each location, outermost function first, joined.
    locations: FxHashMap<u64, String>,
}

impl<'a> Reader<'a> {
    fn new(name: &'a str, message: &'a proto::Profile) -> Result<Self, DiffError> {
        let mut reader = Self { name, message, locations: FxHashMap::default() };
        let functions = message.function.iter().map(|it| (it.id, it)).collect();
        let mappings = message.mapping.iter().map(|it| (it.id, it)).collect();
        for location in &message.location {
            let text = reader.location(location, &functions, &mappings)?;
            reader.locations.insert(location.id, text);
        }
        Ok(reader)
    }

    fn dangling(&self, table: &'static str, id: impl Into<i128>) -> DiffError {
        DiffError::Dangling { name: self.name.to_owned(), table, id: id.into() }
    }

    fn string(&self, index: i64) -> Result<&'a str, DiffError> {
        usize::try_from(index)
            .ok()
            .and_then(|index| self.message.string_table.get(index))
            .map(String::as_str)
            .ok_or_else(|| self.dangling("string", index))
    }

    /// Which of a sample's values counts samples, or the time that the profile is about.
    fn counting_value(&self) -> Result<(usize, Unit), DiffError> {
        let types = &self.message.sample_type;
        let shown_first = self.message.default_sample_type;
        for (position, sample_type) in types.iter().enumerate() {
            let name = self.string(sample_type.r#type)?;
            let is_time = self.string(sample_type.unit)? == NANOSECONDS
                && TIME_TYPES.iter().any(|value| value.name() == name);
            if is_time && sample_type.r#type == shown_first {
                return Ok((position, Unit::Nanoseconds));
            }
        }
        for (position, sample_type) in types.iter().enumerate() {
            if self.string(sample_type.r#type)? == COUNTING_TYPE {
                return Ok((position, Unit::Samples));
            }
        }
        Ok((0, Unit::Samples))
    }

    fn location(
        &self,
        location: &proto::Location,
        functions: &FxHashMap<u64, &proto::Function>,
        mappings: &FxHashMap<u64, &proto::Mapping>,
    ) -> Result<String, DiffError> {
        let file = match location.mapping_id {
            0 => "",
            id => {
                let mapping = mappings.get(&id).ok_or_else(|| self.dangling("mapping", id))?;
                self.string(mapping.filename)?
            }
        };
        let suffix = if is_kernel(file) { KERNEL_SUFFIX } else { "" };
        if location.line.is_empty() && location.address != 0 {
            let file = file.rsplit('/').next().unwrap_or(file);
            return Ok(format!("{}+{:#x}{suffix}", sanitized(file), location.address));
        }
        let mut text = String::new();
        for line in location.line.iter().rev() {
            let id = line.function_id;
            let function = functions.get(&id).ok_or_else(|| self.dangling("function", id))?;
            push_frame(&mut text, &sanitized(self.string(function.name)?));
            text.push_str(suffix);
        }
        Ok(text)
    }

    /// The stack, under the name of its process if the profile tells.
    fn stack(&self, sample: &proto::Sample) -> Result<String, DiffError> {
        let mut stack = String::new();
        for label in &sample.label {
            if label.num == 0 && self.string(label.key)? == PROCESS_LABEL {
                push_frame(&mut stack, &sanitized(self.string(label.str)?));
            }
        }
        for &id in sample.location_id.iter().rev() {
            let text = self.locations.get(&id).ok_or_else(|| self.dangling("location", id))?;
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
