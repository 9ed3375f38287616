//! A custom table: `name,value`, and optionally `unit`, separated by commas, semicolons or tabs. Without a header line
//! the columns are in this order.

use std::borrow::Cow;

use crate::adapter::{prelude::*, unit::Measures};

/// Header lines that `magic` recognizes.
pub(super) const HEADS: &[&[&str]] = &[
    &["name,value"],
    &["Name,Value"],
    &["\"name\",\"value\""],
    &["name,unit,value"],
    &["name;value"],
    &["name\tvalue"],
];

const DELIMITERS: [char; 3] = ['\t', ';', ','];

/// Positions of the columns. The last one may be missing.
struct Columns {
    count: usize,
    name: usize,
    value: usize,
    unit: Option<usize>,
}

pub(super) fn parse(text: &str, _: Option<Average>) -> Parsed {
    let mut results = Results::default();
    let mut measures = Measures::default();
    let delimiter = |line: &str| DELIMITERS.into_iter().find(|c| line.contains(*c));
    let head = numbered(text).find_map(|(line, content)| {
        let delimiter = delimiter(content)?;
        Some((line, delimiter, columns(content, delimiter)?))
    });
    let has_head = head.is_some();
    let first = || numbered(text).find_map(|(line, content)| Some((line - 1, delimiter(content)?)));
    let headless = || {
        let (line, delimiter) = first()?;
        Some((line, delimiter, Columns { count: 3, name: 0, value: 1, unit: Some(2) }))
    };
    let Some((above, delimiter, columns)) = head.or_else(headless) else { return Ok(results) };
    for (line, content) in numbered(text).filter(|(line, _)| *line > above) {
        let at = At { adapter: Adapter::Csv, line };
        let cells = cells(content, delimiter);
        let (Some(name), Some(text)) = (cells.get(columns.name), cells.get(columns.value)) else {
            continue;
        };
        let unit = columns.unit.and_then(|unit| cells.get(unit)).map_or("", AsRef::as_ref);
        // A decimal comma adds a column.
        let is_cut = cells.len() > columns.count || number(unit).is_some();
        match number(text) {
            Some(value) if !is_cut => {
                let (measure, factor) = measures.of(unit);
                let added = at
                    .benchmark(&mut results, name)
                    .and_then(|benchmark| Ok(benchmark.add(measure, Metric::new(value * factor))?));
                added.unwrap_or_else(|error| at.lose(&mut results, name, error));
            }
            Some(_) => {
                let reason = "it has more columns than a name, a value and a unit; write decimal points, or put \
                              semicolons between columns";
                at.lose(&mut results, name, at.malformed(reason));
            }
            // Without a header, any line with a comma would be a row.
            None if has_head || is_no_number(text) => {
                at.lose(&mut results, name, at.malformed(no_number(text)));
            }
            None => {}
        }
    }
    Ok(results)
}

fn columns(line: &str, delimiter: char) -> Option<Columns> {
    let cells = cells(line.trim_start_matches('\u{feff}'), delimiter);
    let place = |title: &str| cells.iter().position(|cell| cell.eq_ignore_ascii_case(title));
    Some(Columns {
        count: cells.len(),
        name: place("name")?,
        value: place("value")?,
        unit: place("unit"),
    })
}

fn cells(line: &str, delimiter: char) -> Vec<Cow<'_, str>> {
    if !line.contains('"') {
        return line.split(delimiter).map(|cell| Cow::Borrowed(cell.trim())).collect();
    }
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .delimiter(u8::try_from(delimiter).unwrap_or(b','))
        .trim(csv::Trim::All)
        .from_reader(line.as_bytes());
    let mut record = csv::StringRecord::new();
    match reader.read_record(&mut record) {
        Ok(true) => record.iter().map(|cell| Cow::Owned(cell.to_owned())).collect(),
        _ => Vec::new(),
    }
}

fn is_no_number(text: &str) -> bool {
    let bare = text.trim_start_matches(['-', '+']).to_ascii_lowercase();
    matches!(bare.as_str(), "nan" | "inf" | "infinity") || has_odd_comma(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables() {
        let check = |text: &str, expected: &[(&str, &str, f64)], failures: &[&str]| {
            let results = Adapter::Csv.parse(text.as_bytes(), None).expect(text);
            let rows = results.benchmarks.iter().flat_map(|it| {
                let values = crate::adapter::values(it).into_iter();
                values.map(|(slug, value)| (it.name.as_str(), slug, value))
            });
            assert_eq!(rows.collect::<Vec<_>>(), expected, "{text}");
            let failed: Vec<_> = results.failures.iter().map(|it| it.name.as_str()).collect();
            assert_eq!(failed, failures, "{text}");
        };
        check("a, 1.5\nb,2,ms\nhello, world\n", &[("a", "value", 1.5), ("b", "latency", 2e6)], &[]);
        check("log, 5\r\nname,value\r\n\"a, b\",\"1,234\"\r\n", &[("a, b", "value", 1234.0)], &[]);
        check("\u{feff}Name;Unit;Value\na;MB;3\nb;MB;1,5\n", &[("a", "mb", 3.0)], &["b"]);
        check("name,value\na,1,5\nb,2\nc,nan\nd,x\n", &[("b", "value", 2.0)], &["a", "c", "d"]);
        check("a,1,5\nb,NaN\nc,3\n", &[("c", "value", 3.0)], &["a", "b"]);
        let magic =
            Adapter::Magic.parse(b"name\tvalue\tunit\na\t7\tns/op\n", None).expect("results");
        assert_eq!(magic.chosen(), Some(Adapter::Csv));
        assert!(Adapter::Magic.parse(b"a, 1.5\n", None).is_err());
    }
}
