//! OpenTelemetry's profiles over HTTP, converted from pprof.
//!
//! An OpenTelemetry profile has one value type, so a pprof profile becomes several. CPU time that is samples times
//! period is omitted: readers compute it from the samples, and Pyroscope would store it twice, under two names
//! (`pkg/ingester/otlp/convert.go`). A period of zero becomes one, since Pyroscope rejects zero.

mod dictionary;
mod names;

use std::{collections::BTreeMap, io::Write as _};

use flate2::{Compression, write::GzEncoder};
use prost::Message as _;
use rustc_hash::FxHashMap;
use uuid::Uuid;
use wingbeat_pprof::{
    pprof::{Dangling, Tables, unpacked},
    proto as pprof,
};

use self::dictionary::Dictionary;
use super::{
    EncodeError, Request,
    otlp_proto::{
        AnyValue, ExportRequest, InstrumentationScope, KeyValue, Profile, Resource,
        ResourceProfiles, Sample, ScopeProfiles, Value, ValueType,
    },
};
use crate::window::{Series, Window, unix_ns};

/// Largest profile to convert, in decompressed bytes.
const PPROF_BYTES_MAX: u64 = 256 << 20;

const CPU: (&str, &str) = ("cpu", "nanoseconds");
const SAMPLES: (&str, &str) = ("samples", "count");

pub(super) fn request(window: &Window) -> Result<Request, EncodeError> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&convert(window)?.encode_to_vec())?;
    Ok(Request {
        path: "/v1development/profiles",
        headers: vec![("content-type", "application/x-protobuf"), ("content-encoding", "gzip")],
        body: gzip.finish()?,
    })
}

/// Creates a resource for each label set, and one dictionary for all.
pub(super) fn convert(window: &Window) -> Result<ExportRequest, EncodeError> {
    let mut dictionary = Dictionary::new();
    let mut resources: BTreeMap<_, Vec<Profile>> = BTreeMap::new();
    for series in &window.series {
        let service = || series.service().to_owned();
        let bytes = unpacked(&series.pprof, PPROF_BYTES_MAX)
            .map_err(|reason| EncodeError::Unpack { service: service(), reason })?;
        let message = pprof::Profile::decode(&*bytes)
            .map_err(|reason| EncodeError::Decode { service: service(), reason })?;
        let made = profiles(window, series, &message, &mut dictionary)
            .map_err(|reason| EncodeError::Dangling { service: service(), reason })?;
        resources.entry((&series.labels, series.service())).or_default().extend(made);
    }
    let scope = InstrumentationScope {
        name: "wingbeat".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let resource_profiles = resources.into_iter().map(|((labels, service), profiles)| {
        let scope_profiles = vec![ScopeProfiles { scope: Some(scope.clone()), profiles }];
        ResourceProfiles { resource: Some(resource(labels, service)), scope_profiles }
    });
    Ok(ExportRequest {
        resource_profiles: resource_profiles.collect(),
        dictionary: Some(dictionary.finish()),
    })
}

fn resource(labels: &BTreeMap<String, String>, service: &str) -> Resource {
    let filled = labels.iter().filter(|(_, value)| !value.is_empty());
    let mut attributes: BTreeMap<_, _> =
        filled.map(|(name, value)| (names::dotted(name), value.as_str())).collect();
    attributes.entry("service.name").or_insert(service);
    let attribute = |(key, value): (&str, &str)| KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(Value::Text(value.to_owned())) }),
    };
    Resource { attributes: attributes.into_iter().map(attribute).collect() }
}

/// The profiles of a series: one for each value type to keep.
fn profiles(
    window: &Window,
    series: &Series,
    message: &pprof::Profile,
    dictionary: &mut Dictionary,
) -> Result<Vec<Profile>, Dangling> {
    let tables = Tables::new(message);
    let mut locations = Locations::new(message);
    // Common to the samples of all types: the stack and the attributes.
    let mut shared = Vec::with_capacity(message.sample.len());
    for sample in &message.sample {
        let stack = locations.stack(sample, &tables, dictionary)?;
        shared.push((stack, names::attributes(sample, &tables, dictionary)?));
    }
    let id = series.id(window.start);
    let mut made = Vec::new();
    for index in types(message, &tables)? {
        let sample_type = message.sample_type[index];
        let values = message.sample.iter().map(|sample| sample.value.get(index).copied());
        let samples: Vec<Sample> = values
            .zip(&shared)
            .filter_map(|(value, (stack_index, attributes))| {
                let values = vec![value.filter(|&value| value != 0)?];
                let (stack_index, attribute_indices) = (*stack_index, attributes.clone());
                Some(Sample { stack_index, attribute_indices, values, ..Sample::default() })
            })
            .collect();
        let sample_type = value_type(sample_type, &tables, dictionary)?;
        let period_type = match message.period_type {
            Some(period_type) => value_type(period_type, &tables, dictionary)?,
            None => sample_type,
        };
        let profile_id = Uuid::new_v5(&id, &index.to_le_bytes()).into_bytes().to_vec();
        made.push(Profile {
            sample_type: Some(sample_type),
            samples,
            time_unix_nano: positive(message.time_nanos)
                .or_else(|| positive(unix_ns(window.start)))
                .unwrap_or(1),
            duration_nano: positive(message.duration_nanos)
                .unwrap_or_else(|| u64::try_from(window.duration.as_nanos()).unwrap_or(u64::MAX)),
            period_type: Some(period_type),
            period: message.period.max(1),
            profile_id,
        });
    }
    // A request without any profile would be rejected.
    if made.iter().any(|profile| !profile.samples.is_empty()) {
        made.retain(|profile| !profile.samples.is_empty());
    } else {
        made.truncate(1);
    }
    Ok(made)
}

fn positive(number: i64) -> Option<u64> {
    u64::try_from(number).ok().filter(|&number| number > 0)
}

fn value_type(
    of: pprof::ValueType,
    tables: &Tables<'_>,
    dictionary: &mut Dictionary,
) -> Result<ValueType, Dangling> {
    Ok(ValueType {
        type_strindex: dictionary.string(tables.string(of.r#type)?),
        unit_strindex: dictionary.string(tables.string(of.unit)?),
    })
}

/// Indices of the value types to keep.
fn types(message: &pprof::Profile, tables: &Tables<'_>) -> Result<Vec<usize>, Dangling> {
    let named = |of: &pprof::ValueType| Ok((tables.string(of.r#type)?, tables.string(of.unit)?));
    let names = message.sample_type.iter().map(named).collect::<Result<Vec<_>, Dangling>>()?;
    let place = |of| names.iter().position(|name| *name == of);
    let period_type = message.period_type.as_ref().map(named).transpose()?;
    let computed = match (place(SAMPLES), place(CPU)) {
        (Some(samples), Some(cpu)) if period_type == Some(CPU) && message.period > 0 => {
            let is_product = |sample: &pprof::Sample| {
                let (count, time_ns) = (sample.value.get(samples)?, sample.value.get(cpu)?);
                (count.checked_mul(message.period)? == *time_ns).then_some(())
            };
            message.sample.iter().all(|sample| is_product(sample).is_some()).then_some(cpu)
        }
        _ => None,
    };
    Ok((0..names.len()).filter(|&index| Some(index) != computed).collect())
}

/// Locations of a pprof profile, with their dictionary indices.
struct Locations<'a> {
    by_id: FxHashMap<u64, &'a pprof::Location>,
    mappings: FxHashMap<u64, &'a pprof::Mapping>,
    known: FxHashMap<u64, i32>,
}

impl<'a> Locations<'a> {
    fn new(message: &'a pprof::Profile) -> Self {
        let by_id = message.location.iter().map(|location| (location.id, location)).collect();
        let mappings = message.mapping.iter().map(|mapping| (mapping.id, mapping)).collect();
        Self { by_id, mappings, known: FxHashMap::default() }
    }

    fn stack(
        &mut self,
        sample: &pprof::Sample,
        tables: &Tables<'_>,
        dictionary: &mut Dictionary,
    ) -> Result<i32, Dangling> {
        let mut stack = Vec::with_capacity(sample.location_id.len());
        for &id in &sample.location_id {
            let index = match self.known.get(&id) {
                Some(&index) => index,
                None => self.place(id, tables, dictionary)?,
            };
            stack.push(index);
        }
        Ok(dictionary.stack(stack))
    }

    fn place(
        &mut self,
        id: u64,
        tables: &Tables<'_>,
        dictionary: &mut Dictionary,
    ) -> Result<i32, Dangling> {
        let missing = |table, id: u64| Dangling { table, id: id.into() };
        let location = self.by_id.get(&id).copied().ok_or(missing("location", id))?;
        let mapping = match location.mapping_id {
            0 => None,
            id => Some(self.mappings.get(&id).copied().ok_or(missing("mapping", id))?),
        };
        let index = dictionary.location(location, mapping, tables)?;
        self.known.insert(id, index);
        Ok(index)
    }
}

#[cfg(test)]
mod tests;
