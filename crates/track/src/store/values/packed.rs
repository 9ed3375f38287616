//! The binary format of a report's values.
//!
//! A sequence of metrics, sorted by benchmark, measure and iteration. Each is three unsigned LEB128 numbers and a
//! little-endian 64-bit float:
//!
//! 1. the row number of the benchmark, less that of the metric before it;
//! 2. the row number of the measure;
//! 3. twice the iteration, plus one if the metric has samples;
//! 4. the value.
//!
//! That is about 11 bytes per metric.

use wingbeat_sql::{
    FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, Value, ValueRef, Written,
};

use super::StoredValue;

/// The sorted values of a report, as packed into a row.
#[derive(Debug)]
pub(super) struct Packed(pub(super) Vec<StoredValue>);

impl ToSql for Packed {
    fn to_sql(&self) -> Written<'_> {
        let mut bytes = Vec::with_capacity(self.0.len() * 11);
        let mut before = 0;
        for StoredValue { benchmark, measure, iteration, value, has_samples, .. } in &self.0 {
            let above = benchmark.wrapping_sub(before).cast_unsigned();
            before = *benchmark;
            let iteration = u64::from(*iteration) << 1 | u64::from(*has_samples);
            for number in [above, measure.cast_unsigned(), iteration] {
                write_number(&mut bytes, number);
            }
            // SQLite stores -0.0 as 0 in `metric`.
            bytes.extend_from_slice(&(value + 0.0).to_le_bytes());
        }
        Ok(ToSqlOutput::Owned(Value::Blob(bytes)))
    }
}

impl FromSql for Packed {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let broken = || FromSqlError::Other("values of a report that cannot be read".into());
        unpacked(value.as_blob()?).map(Self).ok_or_else(broken)
    }
}

fn unpacked(mut bytes: &[u8]) -> Option<Vec<StoredValue>> {
    let mut values = Vec::with_capacity(bytes.len() / 11);
    let mut benchmark = 0_i64;
    while !bytes.is_empty() {
        benchmark = benchmark.wrapping_add(read_number(&mut bytes)?.cast_signed());
        let measure = read_number(&mut bytes)?.cast_signed();
        let iteration = read_number(&mut bytes)?;
        let (iteration, has_samples) = (u32::try_from(iteration >> 1).ok()?, iteration & 1 == 1);
        let (value, rest) = bytes.split_first_chunk()?;
        bytes = rest;
        // A flipped sign of 0 has the same checksum.
        let value = f64::from_le_bytes(*value) + 0.0;
        let samples = Vec::new();
        values.push(StoredValue { benchmark, measure, iteration, value, has_samples, samples });
    }
    Some(values)
}

fn write_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes_of(values: Vec<StoredValue>) -> Vec<u8> {
        match Packed(values).to_sql().expect("bytes") {
            ToSqlOutput::Owned(Value::Blob(bytes)) => bytes,
            other => panic!("{other:?}"),
        }
    }

    type Parts = (i64, i64, u32, f64, bool);

    fn stored((benchmark, measure, iteration, value, has_samples): Parts) -> StoredValue {
        StoredValue { benchmark, measure, iteration, value, has_samples, samples: Vec::new() }
    }

    #[test]
    fn the_format_stays_what_it_is() {
        let values = [(1, 2, 0, 1.5, false), (1, 2, 1, -0.0, true), (200, 1, 64, 1e300, false)];
        let values = values.map(stored);
        let bytes = bytes_of(values.to_vec());
        let expected = [
            &[1, 2, 0][..],
            &1.5_f64.to_le_bytes(),
            &[0, 2, 3],
            &0.0_f64.to_le_bytes(),
            &[0xc7, 1, 1, 0x80, 1],
            &1e300_f64.to_le_bytes(),
        ];
        assert_eq!(bytes, expected.concat());
        assert_eq!(unpacked(&bytes), Some(values.to_vec()));
        for end in 1..bytes.len() {
            let is_whole = [11, 22].contains(&end);
            assert_eq!(unpacked(&bytes[..end]).is_some(), is_whole, "{end}");
        }
    }

    proptest! {
        #[test]
        fn values_come_back(
            values in prop::collection::vec(
                (any::<i64>(), any::<i64>(), any::<u32>(), -1e9_f64..1e9, any::<bool>()),
                0..50,
            ),
        ) {
            let values: Vec<_> = values.into_iter().map(stored).collect();
            prop_assert_eq!(unpacked(&bytes_of(values.clone())), Some(values));
        }

        #[test]
        fn any_bytes_are_values_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = unpacked(&bytes);
        }
    }
}
