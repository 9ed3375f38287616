//! Tolerant and hostile input; scaling.

use super::*;

#[track_caller]
fn check_counts(name: &str, bytes: &[u8], expected: &[(&str, u64)]) {
    let stacks = read_stacks(name, bytes).unwrap();
    let counts: Vec<(&str, u64)> = stacks.counts.iter().map(|(k, &v)| (k.as_str(), v)).collect();
    assert_eq!(counts, expected);
    assert_eq!(stacks.total, expected.iter().map(|(_, count)| count).sum::<u64>());
}

#[track_caller]
fn check_error(name: &str, bytes: &[u8], expected: &str) {
    assert_eq!(read_stacks(name, bytes).unwrap_err().to_string(), expected);
}

#[test]
fn collapsed_stacks_are_read_tolerantly() {
    check_counts("a.folded", b"p;main 3\n", &[("p;main", 3)]);
    check_counts("a.folded", b"p;main 3", &[("p;main", 3)]);
    check_counts("a.folded", b"# note 1\n#\t2\n#p 3\n", &[("#p", 3)]);
    check_counts("a.folded", b"p;main\t3\r\n", &[("p;main", 3)]);
    check_counts("a.folded", b"# a comment\n\np;b 1\np;a 2\np;b 3\n", &[("p;a", 2), ("p;b", 4)]);
    check_counts("a.folded", b"a 2.9\nb 0.5\nc 0\n", &[("a", 2)]);
    check_counts("a.folded", b"<T as Foo>::bar 1\n", &[("<T as Foo>::bar", 1)]);
    check_counts("a.folded", b"a\x07b 1\n", &[("a\u{fffd}b", 1)]);
    check_counts("a.folded", b"caf\xe9 1\n", &[("caf\u{fffd}", 1)]);
    check_counts("a.txt", b"p;main 3\n", &[("p;main", 3)]);
}

#[test]
fn a_wrong_line_is_named_by_its_number() {
    check_error(
        "a.folded",
        b"ok 1\n\nno count here\n",
        "a.folded:3: expected `frame;frame;frame count`, found \"no count here\"",
    );
    check_error(
        "a.folded",
        b"12\n",
        "a.folded:1: expected `frame;frame;frame count`, found \"12\"",
    );
    check_error(
        "a.folded",
        b"a -1\n",
        "a.folded:1: expected `frame;frame;frame count`, found \"a -1\"",
    );
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
fn damaged_files_are_named() {
    check_error("a.pb.gz", b"\x1f\x8b", "a.pb.gz: unpacking failed: unexpected end of file");
}

#[test]
fn profiles_of_different_size_are_scaled() {
    let before = read_stacks("b", b"a 10\nb 20\ngone 10\n").unwrap();
    let after = read_stacks("a", b"a 50\nb 50\nnew 100\n").unwrap();
    let check = |scaling, expected: &str| assert_eq!(paired(&before, &after, scaling), expected);
    check(Scaling::ToAfter, "a 50 50\nb 100 50\ngone 50 0\nnew 0 100\n");
    check(Scaling::None, "a 10 50\nb 20 50\ngone 10 0\nnew 0 100\n");
}

#[test]
fn the_legend_tells_what_is_not_drawn() {
    let before = read_stacks("b", b"a 10\ngone 30\n").unwrap();
    let after = read_stacks("a", b"a 1000\n").unwrap();
    assert_eq!(
        legend(&before, &after, Scaling::ToAfter),
        "red grew, blue shrank (self); 40 → 1,000 samples, scaled to compare; 75.0 % of the first \
         are in stacks that are gone"
    );
}

#[test]
fn states_tell_that_counts_are_nanoseconds() {
    let check =
        |bytes: &[u8], expected| assert_eq!(read_stacks("a", bytes).unwrap().unit, expected);
    check(b"p;main 3\n", Unit::Samples);
    check(b"p;main;[sleeping] 3\np;main 1\n", Unit::Nanoseconds);
    check(b"p;main;[sleeping];[woken by q];q 3\n", Unit::Nanoseconds);
    check(b"p;main;[sleeping]s 3\n", Unit::Samples);
    let before = read_stacks("b", b"p;f;[idle] 20100000\n").unwrap();
    let after = read_stacks("a", b"p;f;[idle] 2000000000\n").unwrap();
    assert_eq!(totals(&before, &after), "20.1 ms → 2.00 s");
    let samples = read_stacks("a", b"p 2000\n").unwrap();
    assert_eq!(totals(&samples, &after), "2,000 samples → 2.00 s");
    assert_eq!(totals(&samples, &samples), "2,000 → 2,000 samples");
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
