//! The table that asv prints for a parameterized benchmark. The last parameters may be columns.
//!
//! ```text
//! ====== ===== =======
//! --          text
//! ------ -------------
//!  size   a b   größe
//! ====== ===== =======
//!   8     120    120
//! ====== ===== =======
//! ```

use std::ops::Range;

/// Parameters and value of each cell of the table at the beginning of the lines.
pub(super) fn rows(
    lines: &[(usize, &str)],
    behind_marker: fn(&str) -> Option<&str>,
) -> Vec<(String, String)> {
    let is_rule_after_marker = lines
        .first()
        .and_then(|(_, line)| behind_marker(line))
        .is_some_and(|told| is_rule(told, '='));
    if !is_rule_after_marker {
        return Vec::new();
    }
    let lines: Vec<&str> = lines[1..]
        .iter()
        .map(|(_, line)| *line)
        .take_while(|line| !line.trim().is_empty())
        .collect();
    read(&lines).unwrap_or_default()
}

fn read(lines: &[&str]) -> Option<Vec<(String, String)>> {
    let thin = lines.iter().position(|line| is_rule(line, '-'))?;
    let thick: Vec<_> = (0..lines.len()).filter(|&at| is_rule(lines[at], '=')).collect();
    let columns = spans(lines[*thick.last()?]);
    let cells =
        |line: &str| -> Vec<String> { columns.iter().map(|span| cell(line, span)).collect() };
    let mut table = Vec::new();
    match thick[..] {
        // Every parameter has a column, and the values are in the last.
        [end] => {
            let names = cells(lines[thin.checked_sub(1)?]);
            for line in lines.get(thin + 1..end)? {
                let mut values = cells(line);
                let value = values.pop()?;
                table.push((parameters(names.iter().zip(&values)), value));
            }
        }
        // Some parameters are columns: their names are above all of their values.
        [header_end, end, ..] => {
            let groups = spans(lines[thin]);
            let in_rows = groups.len().checked_sub(1)?;
            let above = cell(lines[thin.checked_sub(1)?], groups.last()?);
            let header = cells(lines.get(thin + 1).filter(|_| thin + 1 < header_end)?);
            for line in lines.get(header_end + 1..end)? {
                let values = cells(line);
                let of_row = || header.iter().zip(&values).take(in_rows);
                for (title, value) in header.iter().zip(&values).skip(in_rows) {
                    let names: Vec<_> = above.split(" / ").map(str::to_owned).collect();
                    let of_column: Vec<_> = title.split(" / ").map(str::to_owned).collect();
                    let pairs = of_row().chain(names.iter().zip(&of_column));
                    table.push((parameters(pairs), value.clone()));
                }
            }
        }
        [] => return None,
    }
    Some(table)
}

/// `size=8, text=a b`
fn parameters<'t>(pairs: impl Iterator<Item = (&'t String, &'t String)>) -> String {
    pairs.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
}

fn is_rule(line: &str, of: char) -> bool {
    let line = line.trim();
    line.starts_with(of) && line.chars().all(|c| c == of || c == ' ') && line.len() > 1
}

/// The columns under a rule, in characters.
fn spans(rule: &str) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    for (at, _) in rule.chars().enumerate().filter(|(_, c)| *c != ' ') {
        match spans.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => spans.push(at..at + 1),
        }
    }
    spans
}

fn cell(line: &str, span: &Range<usize>) -> String {
    let cell: String = line.chars().skip(span.start).take(span.len()).collect();
    cell.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_give_the_same_names() {
        let check = |text: &str, expected: &[(&str, &str)]| {
            let lines: Vec<_> = text.lines().collect();
            let found = read(&lines).unwrap_or_default();
            let found: Vec<_> = found.iter().map(|(p, v)| (p.as_str(), v.as_str())).collect();
            assert_eq!(found, expected, "{text}");
        };
        let wide = " --          text    \n ------ -------------\n  size   a b   größe \n \
                    ====== ===== =======\n   8     1ns    2ns  \n ====== ===== =======";
        let long = "   size   text        \n  ------ ------- -----\n    8     a b    1ns  \n    \
                    8    größe   2ns  \n  ====== ======= =====";
        let expected = [("size=8, text=a b", "1ns"), ("size=8, text=größe", "2ns")];
        check(wide, &expected);
        check(long, &expected);
        check("", &[]);
        check(" ===", &[]);
        check(" ---\n ===", &[]);
        check(" ---\n ===\n ===\n", &[]);
    }
}
