//! The tables, as text. Pure: a record in, Markdown out.

use std::collections::BTreeMap;

use super::{
    super::super::tables::Table,
    reason,
    record::{ALLOWANCE_S, Record, Sums, Tried},
};

/// Everything.
pub(super) fn all(record: &Record) -> String {
    let mut parts = vec![
        record.origin.text(),
        format!(
            "Each object was measured for {0} s, and ended within the time if it took {1} s more at \
             most. One that had not ended after {2} s was stopped.\n",
            record.time_s, ALLOWANCE_S, record.limit_s
        ),
        by_origin(record).to_markdown(),
        "### Why programs are refused\n".to_owned(),
        by_reason(record).to_markdown(),
        "### Loaded by libbpf and refused here\n".to_owned(),
        refused(record),
        "### Object by object\n".to_owned(),
    ];
    for (origin, objects) in origins(record) {
        parts.push(format!("#### {origin}\n"));
        parts.push(by_object(&objects).to_compact_markdown());
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
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

fn by_origin(record: &Record) -> Table {
    let sum = |objects: &[&Tried]| {
        objects.iter().fold(Sums::default(), |sum, it| sum.and(it.sums(record.time_s)))
    };
    let row = |name: &str, sums: Sums| {
        let counts = [
            sums.objects,
            sums.programs,
            sums.timed,
            sums.verified,
            sums.refused,
            sums.loaded_by_libbpf,
            sums.refused_here_alone,
            sums.in_time,
        ];
        let counts = counts.iter().map(ToString::to_string);
        [name.to_owned()].into_iter().chain(counts).collect()
    };
    let origins = origins(record);
    let mut rows: Vec<Vec<String>> =
        origins.iter().map(|(origin, objects)| row(origin, sum(objects))).collect();
    if rows.len() > 1 {
        rows.push(row("all", sum(&record.tried.iter().collect::<Vec<_>>())));
    }
    let head = vec![
        "origin",
        "objects",
        "programs",
        "timed",
        "verified only",
        "refused",
        "libbpf loads",
        "loaded by libbpf but refused here",
        "ended within the time",
    ];
    Table::new(head, rows)
}

fn by_reason(record: &Record) -> Table {
    let mut reasons: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (reason, programs) in record.tried.iter().flat_map(Tried::reasons) {
        let (sum, objects) = reasons.entry(reason).or_default();
        *sum += programs;
        *objects += 1;
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, counts)| std::cmp::Reverse(*counts));
    let row = |(reason, (programs, objects)): (String, (usize, usize))| {
        vec![reason, programs.to_string(), objects.to_string()]
    };
    Table::new(vec!["reason", "programs", "objects"], reasons.into_iter().map(row).collect())
}

fn by_object(objects: &[&Tried]) -> Table {
    let row = |tried: &&Tried| {
        let sums = tried.sums(0.0);
        let reason = |(reason, programs): (String, usize)| match programs {
            0 | 1 => reason,
            _ => format!("{programs} × {reason}"),
        };
        let reasons: Vec<String> = tried.reasons().into_iter().map(reason).collect();
        let libbpf = match (&tried.libbpf.programs, tried.libbpf.is_late) {
            (_, true) => "did not end".to_owned(),
            (programs, _) if programs.is_empty() => "cannot open it".to_owned(),
            _ => sums.loaded_by_libbpf.to_string(),
        };
        let refused = match (sums.programs, &tried.wingbeat.failure) {
            (0, Some(_)) => "all".to_owned(),
            _ => sums.refused.to_string(),
        };
        let end = if tried.wingbeat.is_late { ", stopped" } else { "" };
        vec![
            tried.name.clone(),
            sums.programs.to_string(),
            sums.timed.to_string(),
            sums.verified.to_string(),
            refused,
            reasons.join("; "),
            libbpf,
            format!("{:.1}{end}", tried.wingbeat.wall_s),
        ]
    };
    let head = vec![
        "object",
        "programs",
        "timed",
        "verified only",
        "refused",
        "why",
        "libbpf loads",
        "wall, s",
    ];
    Table::new(head, objects.iter().map(row).collect())
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
    match lines.is_empty() {
        true => "None.\n".to_owned(),
        false => lines.concat(),
    }
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
        super::{super::Origin, measured::Fate, record::tests::tried},
        *,
    };

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
            let table = by_origin(&record(objects)).to_markdown();
            let rows = table.lines().skip(2).map(|line| {
                line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>().join(" ")
            });
            assert_eq!(rows.collect::<Vec<_>>(), expected, "{table}");
        };
        check(vec![], &[]);
        check(vec![refused_by_us()], &["katran 1 3 1 0 2 3 2 1"]);
        check(
            vec![refused_by_us(), other, refused_by_us()],
            &["katran 2 6 2 0 4 6 4 2", "pcp 1 1 0 1 0 0 0 1", "all 3 7 2 1 4 6 4 3"],
        );
    }

    #[test]
    fn objects_tell_why() {
        let check = |object: &Tried, expected: &str| {
            let table = by_object(&[object]).to_compact_markdown();
            let row = table.lines().nth(2).expect("a row").trim_matches('|');
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            assert_eq!(cells.join(", "), expected);
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
