//! Tables shared by all profiles of a request. Entries are distinct, and the first of each table is empty.

use std::hash::Hash;

use rustc_hash::FxHashMap;
use wingbeat_pprof::{
    pprof::{Dangling, Tables},
    proto as pprof,
};

use super::super::otlp_proto::{
    AnyValue, Function, KeyValueAndUnit, Line, Link, Location, Mapping, ProfilesDictionary, Stack,
    Value,
};

/// OpenTelemetry's attribute for the GNU build id of a mapping's file.
const BUILD_ID: &str = "process.executable.build_id.gnu";
/// OpenTelemetry's attribute for the kind of code at a location.
const FRAME_TYPE: &str = "profile.frame.type";

/// Entries and their indices.
#[derive(Debug)]
struct Table<T> {
    places: FxHashMap<T, i32>,
    entries: Vec<T>,
}

impl<T: Clone + Default + Eq + Hash> Table<T> {
    fn new() -> Self {
        let mut table = Self { places: FxHashMap::default(), entries: Vec::new() };
        table.place(T::default());
        table
    }

    fn place(&mut self, entry: T) -> i32 {
        if let Some(&place) = self.places.get(&entry) {
            return place;
        }
        // A profile is smaller than 2^31 bytes, so it has fewer entries. Otherwise, 0 means none.
        let Ok(place) = i32::try_from(self.entries.len()) else { return 0 };
        self.entries.push(entry.clone());
        self.places.insert(entry, place);
        place
    }
}

/// A dictionary under construction.
#[derive(Debug)]
pub(super) struct Dictionary {
    mappings: Table<Mapping>,
    locations: Table<Location>,
    functions: Table<Function>,
    strings: Table<String>,
    attributes: Table<KeyValueAndUnit>,
    stacks: Table<Stack>,
}

impl Dictionary {
    pub(super) fn new() -> Self {
        Self {
            mappings: Table::new(),
            locations: Table::new(),
            functions: Table::new(),
            strings: Table::new(),
            attributes: Table::new(),
            stacks: Table::new(),
        }
    }

    pub(super) fn string(&mut self, text: &str) -> i32 {
        match self.strings.places.get(text) {
            Some(&place) => place,
            None => self.strings.place(text.to_owned()),
        }
    }

    pub(super) fn stack(&mut self, location_indices: Vec<i32>) -> i32 {
        self.stacks.place(Stack { location_indices })
    }

    pub(super) fn attribute(&mut self, key: &str, value: Value, unit: &str) -> i32 {
        let (key_strindex, unit_strindex) = (self.string(key), self.string(unit));
        let value = Some(AnyValue { value: Some(value) });
        self.attributes.place(KeyValueAndUnit { key_strindex, value, unit_strindex })
    }

    pub(super) fn location(
        &mut self,
        location: &pprof::Location,
        mapping: Option<&pprof::Mapping>,
        tables: &Tables<'_>,
    ) -> Result<i32, Dangling> {
        let (mapping_index, file) = match mapping {
            Some(mapping) => (self.mapping(mapping, tables)?, tables.string(mapping.filename)?),
            None => (0, ""),
        };
        let mut lines = Vec::with_capacity(location.line.len());
        for line in &location.line {
            let function_index = self.function(line.function_id, tables)?;
            lines.push(Line { function_index, line: line.line });
        }
        let frame_type = match file {
            "[kernel]" => Some("kernel"),
            file if file.starts_with('/') => Some("native"),
            _ => None,
        };
        let attribute = |kind: &str| self.attribute(FRAME_TYPE, Value::Text(kind.to_owned()), "");
        let attribute_indices = frame_type.map(attribute).into_iter().collect();
        let address = location.address;
        Ok(self.locations.place(Location { mapping_index, address, lines, attribute_indices }))
    }

    fn mapping(&mut self, mapping: &pprof::Mapping, tables: &Tables<'_>) -> Result<i32, Dangling> {
        let build_id = tables.string(mapping.build_id)?;
        let value = || Value::Text(build_id.to_owned());
        let attribute_indices = match build_id {
            "" => Vec::new(),
            _ => vec![self.attribute(BUILD_ID, value(), "")],
        };
        let filename_strindex = self.string(tables.string(mapping.filename)?);
        Ok(self.mappings.place(Mapping {
            memory_start: mapping.memory_start,
            memory_limit: mapping.memory_limit,
            file_offset: mapping.file_offset,
            filename_strindex,
            attribute_indices,
        }))
    }

    fn function(&mut self, id: u64, tables: &Tables<'_>) -> Result<i32, Dangling> {
        let function = tables.function(id)?;
        let function = Function {
            name_strindex: self.string(tables.string(function.name)?),
            system_name_strindex: self.string(tables.string(function.system_name)?),
            filename_strindex: self.string(tables.string(function.filename)?),
        };
        Ok(self.functions.place(function))
    }

    pub(super) fn finish(self) -> ProfilesDictionary {
        ProfilesDictionary {
            mapping_table: self.mappings.entries,
            location_table: self.locations.entries,
            function_table: self.functions.entries,
            // With zeros of full length, as the schema requires, for readers that check it.
            link_table: vec![Link { trace_id: vec![0; 16], span_id: vec![0; 8] }],
            string_table: self.strings.entries,
            attribute_table: self.attributes.entries,
            stack_table: self.stacks.entries,
        }
    }
}
