//! The tables, as text. Pure.

use super::{
    APART, CHANCES, DISTURBED, DRIFT_SIGMAS, Group, LEASTS, NOISE_POINTS, STEP_SIGMAS,
    STEPS_POINTS, Sort, TURNS, TURNS_SIGMAS, Tool,
    annotated::{Half, Set},
    noise::{KINDS, Kind},
    score::{MARGIN, Score},
    series::OUTAGE_MAX,
};
use crate::{
    numbers::verdict,
    table::{Column, NONE, column, table},
};

/// Steps 100 points apart: the share that is to be found, by kind of noise.
const POWER: [(Kind, f64); 3] =
    [(Kind::Gaussian, 0.9), (Kind::Spikes(0.05), 0.7), (Kind::Bimodal, 0.8)];

/// Levels that alternate: the share of their steps that is to be found, where they are no outages.
const TURNS_FOUND: f64 = 0.9;

/// False points per 1,000 points of noise, in each of so many kinds, the first of [`KINDS`].
const FALSE_MAX: f64 = 1.0;
const FALSE_KINDS: usize = 6;

pub(super) fn text(tools: &[Tool], notes: &[String], seed: u64, groups: &[Group]) -> String {
    let project = groups.iter().filter(|group| group.sort == Sort::Project);
    let projects: usize = project.clone().map(|group| group.series.len()).sum();
    let score = tools.first().map(|tool| tool.score(Sort::Project)).unwrap_or_default();
    let mut text = format!(
        "Made with `cargo xtask peers changes --seed {seed}`; a change is found if it is reported up \
         to {MARGIN} points beside its place.\n"
    );
    for note in notes {
        text.push_str(&format!("\n- {}\n", note.trim_end()));
    }
    if let Some(wingbeat) = tools.first() {
        text.push_str(&format!("\n### Goals\n\n{}", goals(wingbeat)));
    }
    text.push_str(&format!(
        "\n### Project-like series\n\n{projects} series with {} points and {} changes:\n\n{}",
        score.points,
        score.changes,
        project_like(tools)
    ));
    text.push_str(&format!(
        "\n### Steps of {STEP_SIGMAS} σ in noise\n\nFalse alarms in series of {NOISE_POINTS:?} \
         points without a step; share of the steps found in series of {STEPS_POINTS} points with \
         steps {APART:?} points apart or up to half as much more; mean distance of those found from \
         their place, {} apart:\n\n{}",
        APART[0],
        plain(tools)
    ));
    text.push_str(&format!(
        "\n### Levels that alternate\n\nSeries of {STEPS_POINTS} points with two levels, \
         {TURNS_SIGMAS} σ apart, that alternate every so many points. Up to {OUTAGE_MAX} points are no \
         level, so what is reported there is false:\n\n{}",
        turns(tools)
    ));
    text.push_str(&format!(
        "\n### Outages and drift\n\nFalse alarms per 1,000 points in series of {STEPS_POINTS} points, \
         with outages of 2 to {OUTAGE_MAX} points and 5 to 20 σ every 40 to 80 points, and with a \
         drift of {DRIFT_SIGMAS} σ from the first to the last point:\n\n{}",
        disturbed(tools)
    ));
    text
}

/// An `--alpha` with a `--min-change`, and how well they did.
pub(super) type Tried = ((&'static str, &'static str), Score);

/// What came of annotated series: the half for tuning by settings, the other half by set.
pub(super) fn annotated(sets: &[Set], tuning: &[Tried], held_out: &[Score]) -> String {
    let mut text = format!(
        "Made with `cargo xtask peers changes --annotated`; a place counts as a change if more than half \
         of the annotators marked it, up to {MARGIN} points beside, and is found if it is reported up to \
         {MARGIN} points beside it. Every other series, in the order of their names, is for tuning.\n\n"
    );
    for set in sets {
        let count = |half| set.half(half).count();
        let changes = set.series.iter().map(|made| made.changes.len()).sum::<usize>();
        let points = set.series.iter().map(|made| made.values.len()).sum::<usize>();
        text.push_str(&format!(
            "- {}: {} series for tuning and {} held out, with {points} points and {changes} changes.\n",
            set.name,
            count(Half::Tuning),
            count(Half::HeldOut),
        ));
    }
    text.push_str(&format!(
        "\n### Settings, on the half for tuning\n\nF1, and false reports per 1,000 points, by `--alpha` \
         and `--min-change` in percent:\n\n{}",
        settings(tuning)
    ));
    let all = held_out.iter().copied().fold(Score::default(), Score::and);
    let each = sets.iter().map(|set| set.name.as_str()).zip(held_out.iter().copied());
    type Row<'a> = (&'a str, Score);
    let of = |head, figure: fn(Score) -> f64| {
        column(head, move |(_, score): &Row<'_>| share(figure(*score)))
    };
    let table = table(
        each.chain([("all", all)]),
        &[
            column("series", |(set, _): &Row<'_>| (*set).to_owned()),
            of("F1", Score::f1),
            of("precision", Score::precision),
            of("recall", Score::recall),
            of("false per 1,000", Score::false_per_1000),
        ],
    );
    text.push_str(&format!("\n### Defaults, on the half held out\n\n{table}"));
    text
}

fn settings(tuning: &[Tried]) -> String {
    let of = |least: &'static str| {
        move |chance: &&str| {
            let tried = tuning.iter().find(|(settings, _)| *settings == (*chance, least));
            let shown = tried.map(|(_, score)| (share(score.f1()), share(score.false_per_1000())));
            shown.map_or_else(|| NONE.to_owned(), |(f1, alarms)| format!("{f1} / {alarms}"))
        }
    };
    let mut columns: Vec<Column<'_, &str>> = vec![column("", |chance: &&str| (*chance).to_owned())];
    columns.extend(LEASTS.map(|least| column(least, of(least))));
    table(CHANCES, &columns)
}

/// What one row shows: a kind of series, in the words of a table, and a tool.
type Row<'a, T> = (T, &'a Tool);

/// Each of these with each tool.
fn with_tools<T: Copy>(
    all: impl IntoIterator<Item = T>,
    tools: &[Tool],
) -> impl Iterator<Item = Row<'_, T>> {
    all.into_iter().flat_map(move |it| tools.iter().map(move |tool| (it, tool)))
}

/// A column with a figure of a tool's score.
fn figure<'a, T: Copy + 'a>(
    head: &'static str,
    sort: impl Fn(T) -> Sort + 'a,
    figure: fn(Score) -> f64,
) -> Column<'a, Row<'a, T>> {
    column(head, move |&(it, tool): &Row<'a, T>| share(figure(tool.score(sort(it)))))
}

fn tool_name<'a, T: 'a>() -> Column<'a, Row<'a, T>> {
    column("", |(_, tool): &Row<'a, T>| tool.name.clone())
}

fn turns(tools: &[Tool]) -> String {
    table(
        with_tools(TURNS, tools),
        &[
            column("every", |&(every, _): &Row<'_, usize>| every),
            tool_name(),
            figure("found", Sort::Turns, Score::recall),
            figure("false per 1,000", Sort::Turns, Score::false_per_1000),
        ],
    )
}

fn disturbed(tools: &[Tool]) -> String {
    table(
        with_tools(DISTURBED, tools),
        &[
            column("noise", |(kind, _): &Row<'_, Kind>| kind.name()),
            tool_name(),
            figure("outages", Sort::Outages, Score::false_per_1000),
            figure("drift", Sort::Drift, Score::false_per_1000),
        ],
    )
}

fn goals(wingbeat: &Tool) -> String {
    /// What is to be, at least or at most, and what it is.
    struct Goal(String, Result<f64, f64>, f64);
    let found = |what: String, sort, least| Goal(what, Ok(least), wingbeat.score(sort).recall());
    let alarms = |what: String, sort| {
        let what = format!("false points per 1,000, {what}");
        Goal(what, Err(FALSE_MAX), wingbeat.score(sort).false_per_1000())
    };
    let mut goals = Vec::new();
    for (kind, least) in POWER {
        let what = format!("steps found in {} noise", kind.name());
        goals.push(found(what, Sort::Steps(kind, APART[0]), least));
    }
    goals.extend(
        KINDS.into_iter().take(FALSE_KINDS).map(|kind| alarms(kind.name(), Sort::Noise(kind))),
    );
    for kind in DISTURBED {
        goals.push(alarms(format!("outages in {} noise", kind.name()), Sort::Outages(kind)));
        goals.push(alarms(format!("drift in {} noise", kind.name()), Sort::Drift(kind)));
    }
    for every in TURNS {
        let (what, sort) = (format!("levels alternating every {every}"), Sort::Turns(every));
        goals.push(match every <= OUTAGE_MAX {
            true => alarms(what, sort),
            false => found(format!("steps found, {what}"), sort, TURNS_FOUND),
        });
    }
    table(
        goals,
        &[
            column("figure", |Goal(what, ..): &Goal| what.clone()),
            column("goal", |Goal(_, bound, _): &Goal| match bound {
                Ok(least) => format!("at least {least:.2}"),
                Err(most) => format!("at most {most:.0}"),
            }),
            column("measured", |Goal(.., found): &Goal| share(*found)),
            column("verdict", |&Goal(_, bound, found): &Goal| {
                verdict(bound.map_or_else(|most| found <= most, |least| found >= least))
            }),
        ],
    )
}

fn project_like(tools: &[Tool]) -> String {
    let of = |head, of| figure(head, |()| Sort::Project, of);
    table(
        with_tools([()], tools),
        &[
            tool_name(),
            of("F1", Score::f1),
            of("precision", Score::precision),
            of("recall", Score::recall),
            of("false per 1,000", Score::false_per_1000),
            of("off, points", Score::mean_off),
        ],
    )
}

fn plain(tools: &[Tool]) -> String {
    let apart = |head, at: usize, of| figure(head, move |kind| Sort::Steps(kind, APART[at]), of);
    table(
        with_tools(KINDS, tools),
        &[
            column("noise", |(kind, _): &Row<'_, Kind>| kind.name()),
            tool_name(),
            figure("false per 1,000", Sort::Noise, Score::false_per_1000),
            apart("100 apart", 0, Score::recall),
            apart("50 apart", 1, Score::recall),
            apart("25 apart", 2, Score::recall),
            apart("off, points", 0, Score::mean_off),
        ],
    )
}

fn share(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { NONE.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{
        super::{MARKS, MARKS_ANNOTATED},
        *,
    };
    use crate::table::cells_of;
    use wingbeat_steps::{command::repository, marked::between};

    #[test]
    fn the_document_has_the_headings_of_the_tables() {
        let document = repository().join("docs/changes.md");
        let document = fs::read_to_string(document).expect("docs/changes.md");
        let headings = |text: &str| -> Vec<String> {
            text.lines().filter(|line| line.starts_with('#')).map(str::to_owned).collect()
        };
        let tool = Tool { name: "wingbeat".to_owned(), scores: Vec::new() };
        for (marks, made) in
            [(MARKS, text(&[tool], &[], 1, &[])), (MARKS_ANNOTATED, annotated(&[], &[], &[]))]
        {
            let part = between(&document, marks).expect(marks);
            assert_eq!(headings(part), headings(&made), "{marks}");
        }
    }

    #[test]
    fn goals_are_judged() {
        let found = Score { points: 1000, changes: 10, found: 8, reported: 8, off: 4 };
        let alarms = Score { points: 1000, reported: 2, ..Score::default() };
        let tool = Tool {
            name: "wingbeat".to_owned(),
            scores: vec![
                (Sort::Steps(Kind::Gaussian, 100), found),
                (Sort::Steps(Kind::Bimodal, 100), found),
                (Sort::Noise(Kind::LogNormal), alarms),
                (Sort::Noise(Kind::Quantised), Score { points: 1000, ..Score::default() }),
            ],
        };
        let rows = cells_of(&goals(&tool));
        let check = |what: &str, expected: [&str; 2]| {
            let row = rows.iter().find(|row| row[0].contains(what)).expect(what);
            assert_eq!(row[2..], expected, "{what}");
        };
        check("found in Gaussian", ["0.80", "**missed**"]);
        check("found in bimodal", ["0.80", "reached"]);
        check("log-normal", ["2.00", "**missed**"]);
        check("quantised", ["0.00", "reached"]);
    }
}
