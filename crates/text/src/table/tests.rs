//! Snapshots of tables at several widths.

use super::*;

const PLAIN: Paint = Paint { has_colours: false };

fn cells(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|&cell| cell.to_owned()).collect()
}

#[track_caller]
fn check(table: Table, room: usize, expected: &str) {
    let text = table.write(room, PLAIN, &|_, line| line.to_owned());
    assert_eq!(text, expected.trim_start_matches('\n'));
    for line in text.lines() {
        assert!(width(line) <= room, "{line:?} is wider than {room}");
    }
}

fn grouped(names: &[&str]) -> Table {
    let numbers = |heading, figures: [&str; 2]| Column::numbers(heading, cells(&figures));
    let columns = vec![
        numbers("median", ["63.4", "1,234.5"]).in_group("time, ns"),
        numbers("net", ["53.3", "1,224.4"]).in_group("time, ns"),
        numbers("jited", ["300", "13,480"]).in_group("bytes"),
    ];
    Table { names_heading: "case", names: cells(names), columns }
}

#[test]
fn one_table_if_there_is_room() {
    let expected = "
      ─── time, ns ───   bytes
case   median      net   jited
a        63.4     53.3     300
b_v2  1,234.5  1,224.4  13,480
";
    check(grouped(&["a", "b_v2"]), 60, expected);
}

#[test]
fn a_group_without_room_goes_below() {
    let expected = "
      ─── time, ns ───
case   median      net
a        63.4     53.3
b_v2  1,234.5  1,224.4

       bytes
case   jited
a        300
b_v2  13,480
";
    check(grouped(&["a", "b_v2"]), 28, expected);
}

#[test]
fn a_group_wider_than_the_line_is_split() {
    let expected = "
      time, ns
case    median
a         63.4
b_v2   1,234.5

      time, ns
case       net
a         53.3
b_v2   1,224.4

       bytes
case   jited
a        300
b_v2  13,480
";
    check(grouped(&["a", "b_v2"]), 20, expected);
}

#[test]
fn a_long_name_has_a_line_of_its_own_rather_than_a_further_table() {
    let expected = "
      ─── time, ns ───   bytes
case   median      net   jited
a        63.4     53.3     300
a_name_of_nearly_forty_characters_and_so
      1,234.5  1,224.4  13,480
";
    check(grouped(&["a", "a_name_of_nearly_forty_characters_and_so"]), 40, expected);
    let text = grouped(&["a", &"x".repeat(70)]).write(40, PLAIN, &|_, line| line.to_owned());
    assert!(text.contains(&format!("\n{}\n{}\n", "x".repeat(40), "x".repeat(30))), "{text}");
}

#[test]
fn what_is_empty_has_no_line() {
    let columns = vec![Column::words("returns", cells(&["XDP_PASS", ""]))];
    let expected = "
case     returns
a        XDP_PASS
";
    check(Table { names_heading: "case", names: cells(&["a", "without"]), columns }, 60, expected);
}

#[test]
fn headings_are_bold_and_groups_dim() {
    let paint = Paint { has_colours: true };
    let text = grouped(&["a", "b"]).write(80, paint, &|at, line| match at {
        0 => paint.dim(line),
        _ => line.to_owned(),
    });
    let lines: Vec<_> = text.lines().collect();
    let starts = ["\u{1b}[2m", "\u{1b}[1m", "\u{1b}[2m", "b"];
    assert!(lines.iter().zip(starts).all(|(line, start)| line.starts_with(start)), "{lines:?}");
}

fn giving_way() -> Table {
    let columns = vec![
        Column::numbers("value", cells(&["1.5 ns", "12.5 ns"])),
        Column::words("never", cells(&["", ""])),
        Column::numbers("baseline", cells(&["1 ns", ""])).giving_way(GivesWay::Last),
        Column::words("interval", cells(&["+1 to +2", ""])).giving_way(GivesWay::First),
        Column::words("verdict", cells(&["worse", ""])),
    ];
    let names = cells(&["a", "a_rather_long_name"]);
    Table { names_heading: "benchmark", names, columns }
}

#[test]
fn beside_the_name_if_there_is_room() {
    let expected = "
benchmark             value  baseline  interval  verdict
a                    1.5 ns      1 ns  +1 to +2  worse
a_rather_long_name  12.5 ns
";
    check(giving_way(), 60, expected);
}

#[test]
fn without_what_gives_way() {
    let expected = "
benchmark             value  baseline  verdict
a                    1.5 ns      1 ns  worse
a_rather_long_name  12.5 ns
";
    check(giving_way(), 48, expected);
}

#[test]
fn below_a_long_name() {
    let expected = "
benchmark    value  baseline  verdict
a           1.5 ns      1 ns  worse
a_rather_long_name
           12.5 ns
";
    check(giving_way(), 40, expected);
}

#[test]
fn below_any_name() {
    let expected = "
benchmark
      value  verdict
a    1.5 ns  worse
a_rather_long_name
    12.5 ns
";
    check(giving_way(), 20, expected);
}

#[test]
fn paragraphs_where_it_is_narrow() {
    let expected = "
a
  value 1.5 ns,
  baseline
  1 ns,
  interval +1
  to +2,
  verdict worse
a_rather_long_n
ame
  value 12.5 ns
";
    check(giving_way(), 15, expected);
}

#[test]
fn lists_line_up() {
    let head = [("name", Side::Left), ("never", Side::Left), ("n", Side::Right)];
    let red = Paint { has_colours: true }.bad("1");
    let text = rows(&head, &[cells(&["a", "", &red]), cells(&["longer", "", "100"])], 80, PLAIN);
    assert_eq!(text, format!("name      n\na         {red}\nlonger  100\n"));
}

#[test]
fn names_in_lists_are_shortened() {
    let head =
        [("name", Side::Name), ("number", Side::Right), ("other", Side::Name), ("p", Side::Right)];
    let lines =
        [cells(&["a", "1", "b", ""]), cells(&["feature/of-some-kind", "1", "ci-runner-x86", ""])];
    for room in [26, 30, 60] {
        let text = rows(&head, &lines, room, PLAIN);
        assert!(text.lines().all(|line| width(line) <= room), "{room}: {text}");
        assert_eq!(text.contains("feature/of-some-kind"), room == 60, "{text}");
    }
}

#[test]
fn room_is_shared() {
    let check = |wanted: &[usize], room, expected: &[usize]| {
        assert_eq!(shared(wanted, room), expected, "{wanted:?} in {room}");
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
    let lines = [cells(&["a", "kernel 6.12 → 6.18"]), cells(&["b", ""])];
    let check = |room, expected: &str| {
        assert_eq!(rows(&head, &lines, room, PLAIN), expected, "{room}");
    };
    check(usize::MAX, "name  notes\na     kernel 6.12 → 6.18\nb\n");
    check(24, "name  notes\na     kernel 6.12 → 6.18\nb\n");
    check(16, "name\na\n    kernel 6.12\n    → 6.18\nb\n");
}
