//! Tables in text: columns as wide as their widest cell.

use owo_colors::OwoColorize as _;
use unicode_width::UnicodeWidthStr as _;
use wingbeat_track::output::{paragraph, shortened};

/// At which side of its column a cell stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
    /// Left; the middle of its cells is cut out where lines would else be wider than there is room.
    Name,
}

/// Blanks between columns.
const GAP: usize = 2;

/// What stands below a row is indented by this.
const INDENT: usize = 4;

/// Columns that a name keeps, however little room there is.
const NAME_MIN: usize = 8;

/// Divides room among columns that hold names: what is wider than the others gives way first. None gets
/// less than `least`, unless it wants less.
pub(crate) fn shared(wanted: &[usize], room: usize, least: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_unstable_by_key(|&at| wanted[at]);
    let mut shares = wanted.to_vec();
    let mut left = room;
    for (done, &at) in order.iter().enumerate() {
        let share = left / (wanted.len() - done);
        shares[at] = wanted[at].min(share.max(least));
        left = left.saturating_sub(shares[at]);
    }
    shares
}

/// A table with a head, as text. A column that is empty in all rows is left out; so is the space after the
/// last cell of a row. Where lines would be wider than `room`, the last column stands below the others,
/// and names are shortened.
pub(crate) fn table(head: &[(&str, Side)], rows: &[Vec<String>], room: usize) -> String {
    let is_used = |at: &usize| rows.iter().any(|row| !row[*at].is_empty());
    let mut used: Vec<usize> = (0..head.len()).filter(is_used).collect();
    let needed = |at: &usize| {
        rows.iter().map(|row| width(&row[*at])).fold(head[*at].0.width(), usize::max) + GAP
    };
    let is_wide = used.iter().map(needed).sum::<usize>() > room.saturating_add(GAP);
    let below = used.pop_if(|at| is_wide && *at + 1 == head.len());
    let mut widths: Vec<usize> = used
        .iter()
        .map(|&at| rows.iter().map(|row| width(&row[at])).fold(head[at].0.width(), usize::max))
        .collect();
    let names: Vec<usize> =
        (0..used.len()).filter(|&place| head[used[place]].1 == Side::Name).collect();
    let wanted: Vec<usize> = names.iter().map(|&place| widths[place]).collect();
    let line_width = widths.iter().map(|width| width + GAP).sum::<usize>().saturating_sub(GAP);
    let fixed = line_width - wanted.iter().sum::<usize>();
    let shares = shared(&wanted, room.saturating_sub(fixed), NAME_MIN);
    for (&place, share) in names.iter().zip(shares) {
        widths[place] = share;
    }
    let line = |cell: &dyn Fn(usize) -> String| {
        let mut line = String::new();
        for (&at, &wide) in used.iter().zip(&widths) {
            let mut cell = cell(at);
            if head[at].1 == Side::Name {
                cell = shortened(&cell, wide);
            }
            let fill = " ".repeat(wide.saturating_sub(width(&cell)));
            if !line.is_empty() {
                line.push_str("  ");
            }
            match head[at].1 {
                Side::Left | Side::Name => line.extend([&*cell, &*fill]),
                Side::Right => line.extend([&*fill, &*cell]),
            }
        }
        line.truncate(line.trim_end().len());
        line
    };
    let mut text = format!("{}\n", line(&|at| head[at].0.to_owned()).dimmed());
    for row in rows {
        text.push_str(&line(&|at| row[at].clone()));
        text.push('\n');
        if let Some(cell) = below.map(|at| &row[at]).filter(|cell| !cell.is_empty()) {
            text.push_str(&format!("{:INDENT$}{}\n", "", paragraph(cell, INDENT, room)));
        }
    }
    text
}

/// Columns of a text that may hold escape sequences for colours.
fn width(text: &str) -> usize {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().map_or(0, |part| part.width());
    first
        + parts.map(|part| part.split_once('m').map_or(0, |(_, rest)| rest.width())).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let head = [("name", Side::Left), ("never", Side::Left), ("n", Side::Right)];
        let row =
            |name: &str, number: &str| vec![name.to_owned(), String::new(), number.to_owned()];
        let red = "1".red().to_string();
        let text = table(&head, &[row("a", &red), row("longer", "100")], 80);
        let rows: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(rows, [format!("a         {red}"), "longer  100".to_owned()]);
    }

    #[test]
    fn names_are_shortened() {
        let head = [
            ("name", Side::Name),
            ("number", Side::Right),
            ("other", Side::Name),
            ("notes", Side::Left),
        ];
        let row = |name: &str, other: &str| [name, "1", other, ""].map(str::to_owned).into();
        let rows = [row("a", "b"), row("feature/of-some-kind", "ci-runner-x86")];
        for room in [26, 30, 60] {
            let text = table(&head, &rows, room);
            let widest = text.lines().skip(1).map(width).max();
            assert!(widest <= Some(room), "{room}: {text}");
            assert_eq!(text.contains("feature/of-some-kind"), room == 60, "{text}");
        }
    }

    #[test]
    fn room_is_shared() {
        let check = |wanted: &[usize], room, expected: &[usize]| {
            assert_eq!(shared(wanted, room, 8), expected, "{wanted:?} in {room}");
        };
        check(&[10, 20], 40, &[10, 20]);
        check(&[10, 30], 30, &[10, 20]);
        check(&[30, 30], 31, &[15, 16]);
        check(&[30, 5, 30], 25, &[10, 5, 10]);
        check(&[30, 5], 0, &[8, 5]);
        check(&[], 10, &[]);
    }

    #[test]
    fn a_long_last_column_stands_below() {
        let head = [("name", Side::Left), ("notes", Side::Left)];
        let rows =
            [["a", "kernel 6.12 → 6.18"], ["b", ""]].map(|row| row.map(str::to_owned).into());
        let check = |room, expected: &[&str]| {
            let text = table(&head, &rows, room);
            assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), expected, "{room}");
        };
        check(usize::MAX, &["a     kernel 6.12 → 6.18", "b"]);
        check(24, &["a     kernel 6.12 → 6.18", "b"]);
        check(16, &["a", "    kernel 6.12", "    → 6.18", "b"]);
    }
}
