//! The tables, as text: those of the page, and those of a file beside it. Pure: a record in, Markdown out.

use std::collections::BTreeMap;

use super::{
    reason,
    record::{ALLOWANCE_S, Record, Sums, Tried},
};
use crate::table::{column, compact, joined, table};

/// What fits onto a screen.
pub(super) fn page(record: &Record) -> String {
    let told = format!(
        "Each object was measured for {0} s, and ended within the time if it took {1} s more at most. \
         One that had not ended after {2} s was stopped; one of which a program was not reached was \
         tried once more without `--time`.\n",
        record.time_s, ALLOWANCE_S, record.limit_s
    );
    joined(vec![record.origin.text(""), told, by_origin(record)])
}

/// The rest: why, and object by object.
pub(super) fn details(record: &Record) -> String {
    let mut parts = vec![
        "# Objects of other projects, one by one\n".to_owned(),
        record.origin.text(""),
        "### Why programs are refused\n".to_owned(),
        by_reason(record),
        "### Loaded by libbpf and refused here\n".to_owned(),
        refused(record),
        "### Object by object\n".to_owned(),
    ];
    for (origin, objects) in origins(record) {
        parts.push(format!("#### {origin}\n"));
        parts.push(by_object(&objects));
    }
    joined(parts)
}

/// The objects of each origin, in the order in which they were tried.
fn origins(record: &Record) -> Vec<(&str, Vec<&Tried>)> {
    let mut origins: Vec<(&str, Vec<&Tried>)> = Vec::new();
    for tried in &record.tried {
        match origins.iter_mut().find(|(origin, _)| *origin == tried.origin) {
            Some((_, objects)) => objects.push(tried),
            None => origins.push((&tried.origin, vec![tried])),
        }
    }
    origins
}

/// The row of an origin: packages of crates.io share one, and so do the folders of samples.
fn row_of(origin: &str) -> &str {
    let collections = ["crate", "samples"];
    let prefix = origin.split_once('-').map(|(prefix, _)| prefix);
    prefix.filter(|prefix| collections.contains(prefix)).unwrap_or(origin)
}

fn by_origin(record: &Record) -> String {
    type Row<'a> = (&'a str, Sums);
    let sum = |objects: &[&Tried]| {
        objects.iter().fold(Sums::default(), |sum, it| sum.and(it.sums(record.time_s)))
    };
    let mut rows: Vec<Row<'_>> = Vec::new();
    for (origin, objects) in origins(record) {
        let (row, more) = (row_of(origin), sum(&objects));
        match rows.iter_mut().find(|(known, _)| *known == row) {
            Some((_, sums)) => *sums = sums.and(more),
            None => rows.push((row, more)),
        }
    }
    if rows.len() > 1 {
        rows.push(("all", sum(&record.tried.iter().collect::<Vec<_>>())));
    }
    let count = |head, of: fn(&Sums) -> usize| column(head, move |(_, sums): &Row<'_>| of(sums));
    table(
        rows,
        &[
            column("origin", |(origin, _): &Row<'_>| (*origin).to_owned()),
            count("objects", |sums| sums.objects),
            count("programs", |sums| sums.programs),
            count("timed", |sums| sums.timed),
            count("verified only", |sums| sums.verified),
            count("refused", |sums| sums.refused),
            count("libbpf loads", |sums| sums.loaded_by_libbpf),
            count("loaded by libbpf but refused here", |sums| sums.refused_here_alone),
            count("ended within the time", |sums| sums.in_time),
        ],
    )
}

fn by_reason(record: &Record) -> String {
    let mut reasons: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (reason, programs) in record.tried.iter().flat_map(Tried::reasons) {
        let (sum, objects) = reasons.entry(reason).or_default();
        *sum += programs;
        *objects += 1;
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, counts)| std::cmp::Reverse(*counts));
    type Row = (String, (usize, usize));
    table(
        reasons,
        &[
            column("reason", |(reason, _): &Row| reason.clone()),
            column("programs", |(_, (programs, _)): &Row| *programs),
            column("objects", |(_, (_, objects)): &Row| *objects),
        ],
    )
}

fn by_object(objects: &[&Tried]) -> String {
    let why = |tried: &&&Tried| {
        let reason = |(reason, programs): (String, usize)| match programs {
            0 | 1 => reason,
            _ => format!("{programs} × {reason}"),
        };
        tried.reasons().into_iter().map(reason).collect::<Vec<_>>().join("; ")
    };
    let libbpf = |tried: &&&Tried| match (&tried.libbpf.programs, tried.libbpf.is_late) {
        (_, true) => "did not end".to_owned(),
        (programs, _) if programs.is_empty() => "cannot open it".to_owned(),
        _ => tried.sums(0.0).loaded_by_libbpf.to_string(),
    };
    let refused = |tried: &&&Tried| match (tried.sums(0.0), &tried.wingbeat.failure) {
        (Sums { programs: 0, .. }, Some(_)) => "all".to_owned(),
        (sums, _) => sums.refused.to_string(),
    };
    let end = |tried: &&&Tried| {
        let end = if tried.wingbeat.is_late { ", stopped" } else { "" };
        format!("{:.1}{end}", tried.wingbeat.wall_s)
    };
    compact(
        objects,
        &[
            column("object", |tried: &&&Tried| tried.name.clone()),
            column("programs", |tried: &&&Tried| tried.sums(0.0).programs),
            column("timed", |tried: &&&Tried| tried.sums(0.0).timed),
            column("verified only", |tried: &&&Tried| tried.sums(0.0).verified),
            column("refused", refused),
            column("why", why),
            column("libbpf loads", libbpf),
            column("wall, s", end),
        ],
    )
}

/// A list of programs with the whole reason, those of an object with the same reason together.
fn refused(record: &Record) -> String {
    let mut lines = Vec::new();
    for tried in &record.tried {
        let mut reasons: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (program, reason) in tried.refused_here_alone() {
            // The name of the program is mostly all that differs.
            let reason = reason::without_name(&reason::in_one_line(&reason), program);
            reasons.entry(reason).or_default().push(program);
        }
        for (reason, programs) in reasons {
            let (Tried { origin, name, .. }, programs) = (tried, programs.join("`, `"));
            lines
                .push(format!("- {origin}/{name}, `{programs}`: `{}`\n", reason.replace('`', "'")));
        }
    }
    if lines.is_empty() { "None.\n".to_owned() } else { lines.concat() }
}

/// What a reader of the terminal wants to know of an object at once.
pub(super) fn progress(tried: &Tried, time_s: f64) -> String {
    let Sums { programs, timed, verified, refused, refused_here_alone, .. } = tried.sums(time_s);
    let end = match (tried.wingbeat.is_late, tried.is_in_time(time_s)) {
        (true, _) => ", stopped",
        (false, false) => ", too long",
        (false, true) => "",
    };
    format!(
        "{}/{}: {programs} programs, {timed} timed, {verified} verified only, {refused} refused \
         ({refused_here_alone} of them loaded by libbpf), {:.1} s{end}",
        tried.origin, tried.name, tried.wingbeat.wall_s
    )
}

#[cfg(test)]
mod tests {
    use super::{
        super::{measured::Fate, record::tests::tried},
        *,
    };
    use crate::{comparison::Origin, table::cells_of};

    fn record(tried: Vec<Tried>) -> Record {
        Record { origin: Origin::default(), time_s: 2.0, limit_s: 60.0, tried }
    }

    fn refused_by_us() -> Tried {
        let reason = Fate::Refused("the verifier rejects b:\n   R1 is | bad".to_owned());
        let second = Fate::Refused("the verifier rejects c:\n   R1 is | bad".to_owned());
        let ours = [("a", Fate::Timed), ("b", reason), ("c", second)];
        tried(&ours, &[("a", true), ("b", true), ("c", true)])
    }

    #[test]
    fn origins_are_summed() {
        let other = Tried { origin: "pcp".to_owned(), ..tried(&[("x", Fate::Verified)], &[]) };
        let check = |objects: Vec<Tried>, expected: &[&str]| {
            let rows = cells_of(&by_origin(&record(objects)));
            assert_eq!(rows.iter().map(|row| row.join(" ")).collect::<Vec<_>>(), expected);
        };
        check(vec![], &[]);
        check(vec![refused_by_us()], &["katran 1 3 1 0 2 3 2 1"]);
        check(
            vec![refused_by_us(), other, refused_by_us()],
            &["katran 2 6 2 0 4 6 4 2", "pcp 1 1 0 1 0 0 0 1", "all 3 7 2 1 4 6 4 3"],
        );
        let of = |origin: &str| Tried { origin: origin.to_owned(), ..refused_by_us() };
        check(
            vec![of("crate-a"), of("cratered"), of("crate-b-0.1")],
            &["crate 2 6 2 0 4 6 4 2", "cratered 1 3 1 0 2 3 2 1", "all 3 9 3 0 6 9 6 3"],
        );
    }

    #[test]
    fn objects_tell_why() {
        let check = |object: &Tried, expected: &str| {
            assert_eq!(cells_of(&by_object(&[object]))[0].join(", "), expected);
        };
        let mut object = refused_by_us();
        check(&object, "balancer.o, 3, 1, 0, 2, 2 × rejected by the verifier, 3, 2.0");
        (object.wingbeat.is_late, object.libbpf.is_late) = (true, true);
        check(
            &object,
            "balancer.o, 3, 1, 0, 2, 2 × rejected by the verifier, did not end, 2.0, stopped",
        );
        let mut whole = tried(&[], &[]);
        whole.wingbeat.failure = Some("x.o is damaged: .BTF".to_owned());
        check(&whole, "balancer.o, 0, 0, 0, all, damaged object, cannot open it, 2.0");
    }

    #[test]
    fn what_libbpf_loads_is_listed_with_the_whole_reason() {
        let text = refused(&record(vec![refused_by_us()]));
        let expected =
            "- katran/balancer.o, `b`, `c`: `the verifier rejects PROGRAM: / R1 is | bad`\n";
        assert_eq!(text, expected);
        assert_eq!(refused(&record(vec![tried(&[("a", Fate::Timed)], &[])])), "None.\n");
    }
}
