//! Tolerant and hostile input; units.

use super::*;

#[track_caller]
fn check_counts(name: &str, bytes: &[u8], expected: &[(&str, f64)]) {
    let [side, _] = read([(name, bytes), (name, bytes)], None).unwrap();
    assert_eq!(side.total(), expected.iter().map(|(_, count)| count).sum::<f64>());
    let rows = Flame::single(&side, side.total()).functions();
    let mut own: Vec<(&str, f64)> =
        rows.iter().map(|row| (&*row.name, row.own.after)).filter(|(_, own)| *own > 0.0).collect();
    own.sort_by_key(|(name, _)| *name);
    assert_eq!(own, expected);
}

#[track_caller]
fn check_error(name: &str, bytes: &[u8], expected: &str) {
    assert_eq!(functions([(name, bytes), ("b", b"b 1")]).unwrap_err().to_string(), expected);
}

#[test]
fn collapsed_stacks_are_read_tolerantly() {
    check_counts("a.folded", b"p;main 3\n", &[("main", 3.0)]);
    check_counts("a.folded", b"p;main 3", &[("main", 3.0)]);
    check_counts("a.folded", b"# note 1\n#\t2\n#p 3\n", &[("#p", 3.0)]);
    check_counts("a.folded", b"p;main\t3\r\n", &[("main", 3.0)]);
    check_counts("a.folded", b"# a comment\n\np;b 1\np;a 2\np;b 3\n", &[("a", 2.0), ("b", 4.0)]);
    check_counts("a.folded", b"a 2.9\nb 0.5\nc 0\n", &[("a", 2.0)]);
    check_counts("a.folded", b"<T as Foo>::bar 1\n", &[("<T as Foo>::bar", 1.0)]);
    check_counts("a.folded", b"a\x07b 1\n", &[("a\u{fffd}b", 1.0)]);
    check_counts("a.folded", b"caf\xe9 1\n", &[("caf\u{fffd}", 1.0)]);
    check_counts("a.txt", b"p;main 3\n", &[("main", 3.0)]);
}

#[test]
fn a_wrong_line_is_named_by_its_number() {
    let check = |name: &str, bytes: &[u8], line: u32, text: &str| {
        let expected = format!(
            "cannot read {name} as collapsed stacks: line {line} is {text:?}, not frames and a count \
             (`main;work 12`); give a file that a profiler wrote as pprof (.pb.gz) or as collapsed \
             stacks (.folded)"
        );
        check_error(name, bytes, &expected);
    };
    check("a.folded", b"ok 1\n\nno count here\n", 3, "no count here");
    check("a.folded", b"12\n", 1, "12");
    check("a.folded", b"a -1\n", 1, "a -1");
    check("a.svg", b"<svg width=\"9\">\n</svg>\n", 1, "<svg width=\"9\">");
}

#[test]
fn files_of_nothing_are_refused() {
    let expected = "holds no samples, so there is nothing to compare; profile it again for longer";
    check_error("a.folded", b"", &format!("a.folded: {expected}"));
    check_error("a.folded", b"a 0\n", &format!("a.folded: {expected}"));
    check_error("a.pb.gz", b"", &format!("a.pb.gz: {expected}"));
}

#[test]
fn absurd_counts_are_refused() {
    let expected = "a: the counts add up to more than 9007199254740992; are they samples?";
    check_error("a", b"a 9007199254740993\n", expected);
    check_error("a", b"a 18446744073709551615\nb 1\n", expected);
    check_error("a", b"a 18446744073709551615\na 18446744073709551615\n", expected);
}

#[test]
fn other_files_show_their_beginning() {
    let error = functions([("a.o", b"\x7fELF\x02\x01\x01\0\0\0"), ("b", b"a 1\n")]);
    let expected = "cannot read a.o as a pprof profile: its content begins with \"\\x7fELF\\x02\\x01\\x01\\x00\"";
    let error = error.expect_err("refused").to_string();
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn damaged_files_are_named() {
    check_error("a.pb.gz", b"\x1f\x8b", "a.pb.gz: cannot be decompressed: unexpected end of file");
}

fn drawn(before: &[u8], after: &[u8], scaling: Scaling) -> ([String; 2], String) {
    let mut svg = Vec::new();
    let totals = differential_svg([("b", before), ("a", after)], scaling, &mut svg).unwrap();
    (totals, String::from_utf8(svg).unwrap())
}

#[test]
fn profiles_of_different_size_are_scaled() {
    let (before, after) = (b"p;a 10\np;b 20\np;gone 10\n", b"p;a 50\np;b 50\np;new 100\n");
    let check = |scaling, facts: &str, details: &[&str]| {
        let (totals, svg) = drawn(before, after, scaling);
        assert_eq!(totals, ["40 samples", "200 samples"]);
        assert!(svg.contains(&format!(">{facts}</text>")), "{svg}");
        for details in details {
            assert!(svg.contains(&format!("<title>{details}")), "{details}: {svg}");
        }
    };
    let scaled = "40 samples → 200 samples, scaled to compare";
    let details = ["a\n50 samples → 50 samples", "b\n100 samples → 50 samples"];
    check(Scaling::ToAfter, scaled, &details);
    let details = ["a\n10 samples → 50 samples", "b\n20 samples → 50 samples"];
    check(Scaling::None, "40 samples → 200 samples", &details);
}

#[test]
fn states_show_that_counts_are_nanoseconds() {
    let check = |text: &str, expected| {
        let [side, _] = read([("a", text.as_bytes()), ("a", text.as_bytes())], None).unwrap();
        assert_eq!(side.kind(), expected, "{text}");
    };
    check("p;main 3\n", SAMPLES);
    check("p;main;[sleeping] 3\np;main 1\n", TIME);
    check("p;main;[sleeping];[woken by q];q 3\n", TIME);
    check("p;main;[sleeping]s 3\n", SAMPLES);
    let (totals, _) = drawn(b"p;f;[idle] 20100000\n", b"p;f;[idle] 2000000000\n", Scaling::ToAfter);
    assert_eq!(totals, ["20.1 ms", "2.00 s"]);
    let files: [File<'_>; 2] = [("a", b"p;f 2000"), ("b", b"p;f;[idle] 2000")];
    let error = functions(files).unwrap_err().to_string();
    assert!(error.contains("samples count and time nanoseconds"), "{error}");
}

#[test]
fn functions_are_compared_by_their_stacks() {
    let check = |before: &str, after: &str, expected: &str| {
        let files = [("a.folded", before.as_bytes()), ("b.folded", after.as_bytes())];
        let found = match functions(files) {
            Ok((explanation, unit)) => {
                let listed = explanation.listed();
                let listed: Vec<String> = listed
                    .map(|(name, change, _)| format!("{name} {} {}", change.before, change.after))
                    .collect();
                format!("{unit}: {}", listed.join(", "))
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected);
    };
    check("p;main;a 10\np;main;b 10", "p;main;a 10\np;main;b 30", "samples: b 10 30");
    check("p;main;a;do_read_[k] 10", "p;main;a;do_read_[k] 12", "samples: a 10 12");
    check("p;a;[sleeping] 10", "p;a;[sleeping] 20", "ns: a 10 20");
    check(
        "",
        "p;a 1",
        "a.folded: holds no samples, so there is nothing to compare; profile it again for longer",
    );
    let other = "the profiles have no function in common: they are of different programs";
    check("p;a 1", "q;b 1", &format!("a.folded and b.folded: {other}"));
}
