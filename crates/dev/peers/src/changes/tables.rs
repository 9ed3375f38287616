//! The tables, as text. Pure.

use super::{
    super::tables::Table,
    APART, CHANCES, DISTURBED, DRIFT_SIGMAS, Group, LEASTS, NOISE_POINTS, STEP_SIGMAS,
    STEPS_POINTS, Sort, TURNS, TURNS_SIGMAS, Tool,
    annotated::{Half, Set},
    noise::{KINDS, Kind},
    score::{MARGIN, Score},
    series::OUTAGE_MAX,
};

/// Steps 100 points apart: the share that is to be found, by kind of noise.
const POWER: [(Kind, f64); 3] =
    [(Kind::Gaussian, 0.9), (Kind::Spikes(0.05), 0.7), (Kind::Bimodal, 0.8)];

/// Levels that alternate: the share of their steps that is to be found, where they are no outages.
const TURNS_FOUND: f64 = 0.9;

/// False points per 1,000 points of noise, in each of these kinds.
const FALSE_MAX: f64 = 1.0;
const FALSE_KINDS: [Kind; 6] = [
    Kind::Gaussian,
    Kind::LogNormal,
    Kind::Autoregressive(0.5),
    Kind::Spikes(0.05),
    Kind::Bimodal,
    Kind::Quantised,
];

/// What stands where there is no figure.
const NONE: &str = "–";

/// Everything.
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
        text.push_str(&format!("\n### Goals\n\n{}", goals(wingbeat).to_markdown()));
    }
    text.push_str(&format!(
        "\n### Project-like series\n\n{projects} series with {} points and {} changes:\n\n{}",
        score.points,
        score.changes,
        project_like(tools).to_markdown()
    ));
    text.push_str(&format!(
        "\n### Steps of {STEP_SIGMAS} σ in noise\n\nFalse alarms in series of {NOISE_POINTS:?} \
         points without a step; share of the steps found in series of {STEPS_POINTS} points with \
         steps {APART:?} points apart or up to half as much more; mean distance of those found from \
         their place, {} apart:\n\n{}",
        APART[0],
        plain(tools).to_markdown()
    ));
    text.push_str(&format!(
        "\n### Levels that alternate\n\nSeries of {STEPS_POINTS} points with two levels, \
         {TURNS_SIGMAS} σ apart, that alternate every so many points. Up to {OUTAGE_MAX} points are no \
         level, so what is reported there is false:\n\n{}",
        turns(tools).to_markdown()
    ));
    text.push_str(&format!(
        "\n### Outages and drift\n\nFalse alarms per 1,000 points in series of {STEPS_POINTS} points, \
         with outages of 2 to {OUTAGE_MAX} points and 5 to 20 σ every 40 to 80 points, and with a \
         drift of {DRIFT_SIGMAS} σ from the first to the last point:\n\n{}",
        disturbed(tools).to_markdown()
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
        settings(tuning).to_markdown()
    ));
    let all = held_out.iter().copied().fold(Score::default(), Score::and);
    let each = sets.iter().map(|set| set.name.as_str()).zip(held_out.iter().copied());
    let rows = each.chain([("all", all)]).map(|(set, score)| {
        let shares = [score.f1(), score.precision(), score.recall(), score.false_per_1000()];
        let mut row = vec![set.to_owned()];
        row.extend(shares.map(share));
        row
    });
    let head = vec!["series", "F1", "precision", "recall", "false per 1,000"];
    text.push_str(&format!(
        "\n### Defaults, on the half held out\n\n{}",
        Table::new(head, rows.collect()).to_markdown()
    ));
    text
}

fn settings(tuning: &[Tried]) -> Table {
    let row = |chance: &str| {
        let of = |least: &str| {
            let tried = tuning.iter().find(|(settings, _)| *settings == (chance, least));
            tried.map_or_else(
                || NONE.to_owned(),
                |(_, score)| format!("{} / {}", share(score.f1()), share(score.false_per_1000())),
            )
        };
        let mut row = vec![chance.to_owned()];
        row.extend(LEASTS.map(of));
        row
    };
    let head = [""].into_iter().chain(LEASTS).collect();
    Table::new(head, CHANCES.into_iter().map(row).collect())
}

fn turns(tools: &[Tool]) -> Table {
    let row = |every: usize, tool: &Tool| {
        let score = tool.score(Sort::Turns(every));
        let shares = [score.recall(), score.false_per_1000()];
        let mut row = vec![every.to_string(), tool.name.clone()];
        row.extend(shares.map(share));
        row
    };
    let rows = TURNS.into_iter().flat_map(|every| tools.iter().map(move |tool| row(every, tool)));
    Table::new(vec!["every", "", "found", "false per 1,000"], rows.collect())
}

fn disturbed(tools: &[Tool]) -> Table {
    let row = |kind: Kind, tool: &Tool| {
        let mut row = vec![kind.name(), tool.name.clone()];
        row.extend(
            [Sort::Outages(kind), Sort::Drift(kind)]
                .map(|sort| share(tool.score(sort).false_per_1000())),
        );
        row
    };
    let rows = DISTURBED.into_iter().flat_map(|kind| tools.iter().map(move |tool| row(kind, tool)));
    Table::new(vec!["noise", "", "outages", "drift"], rows.collect())
}

fn goals(wingbeat: &Tool) -> Table {
    let verdict = |is_reached| if is_reached { "reached" } else { "**missed**" }.to_owned();
    let power = POWER.into_iter().map(|(kind, least)| {
        let found = wingbeat.score(Sort::Steps(kind, APART[0])).recall();
        vec![
            format!("steps found in {} noise", kind.name()),
            format!("at least {least:.2}"),
            share(found),
            verdict(found >= least),
        ]
    });
    let alarms = FALSE_KINDS.into_iter().map(|kind| {
        let found = wingbeat.score(Sort::Noise(kind)).false_per_1000();
        vec![
            format!("false points per 1,000, {}", kind.name()),
            format!("at most {FALSE_MAX:.0}"),
            share(found),
            verdict(found <= FALSE_MAX),
        ]
    });
    let disturbed = DISTURBED.into_iter().flat_map(|kind| {
        [("outages", Sort::Outages(kind)), ("drift", Sort::Drift(kind))].map(|(what, sort)| {
            let found = wingbeat.score(sort).false_per_1000();
            vec![
                format!("false points per 1,000, {what} in {} noise", kind.name()),
                format!("at most {FALSE_MAX:.0}"),
                share(found),
                verdict(found <= FALSE_MAX),
            ]
        })
    });
    let turns = TURNS.into_iter().map(|every| {
        let score = wingbeat.score(Sort::Turns(every));
        if every <= OUTAGE_MAX {
            let found = score.false_per_1000();
            let what = format!("false points per 1,000, levels by turns every {every}");
            let most = format!("at most {FALSE_MAX:.0}");
            return vec![what, most, share(found), verdict(found <= FALSE_MAX)];
        }
        let found = score.recall();
        vec![
            format!("steps found, levels by turns every {every}"),
            format!("at least {TURNS_FOUND:.2}"),
            share(found),
            verdict(found >= TURNS_FOUND),
        ]
    });
    let rows = power.chain(alarms).chain(disturbed).chain(turns);
    Table::new(vec!["wingbeat's", "is to be", "is", "verdict"], rows.collect())
}

fn project_like(tools: &[Tool]) -> Table {
    let row = |tool: &Tool| {
        let score = tool.score(Sort::Project);
        let shares = [score.f1(), score.precision(), score.recall(), score.false_per_1000()];
        let mut row = vec![tool.name.clone()];
        row.extend(shares.map(share));
        row.push(share(score.mean_off()));
        row
    };
    let head = vec!["", "F1", "precision", "recall", "false per 1,000", "off, points"];
    Table::new(head, tools.iter().map(row).collect())
}

fn plain(tools: &[Tool]) -> Table {
    let row = |kind: Kind, tool: &Tool| {
        let noise = tool.score(Sort::Noise(kind));
        let steps = APART.map(|apart| tool.score(Sort::Steps(kind, apart)));
        let mut row = vec![kind.name(), tool.name.clone(), share(noise.false_per_1000())];
        row.extend(steps.map(Score::recall).map(share));
        row.push(share(steps[0].mean_off()));
        row
    };
    let head =
        vec!["noise", "", "false per 1,000", "100 apart", "50 apart", "25 apart", "off, points"];
    let rows = KINDS.into_iter().flat_map(|kind| tools.iter().map(move |tool| row(kind, tool)));
    Table::new(head, rows.collect())
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
        let text = goals(&tool).to_markdown();
        let check = |what: &str, expected: &str| {
            let line = text.lines().find(|line| line.contains(what)).unwrap_or_default();
            assert!(line.contains(expected), "{what}: {line}");
        };
        check("found in Gaussian", "0.80 | **missed**");
        check("found in bimodal", "0.80 | reached");
        check("log-normal", "2.00 | **missed**");
        check("quantised", "0.00 | reached");
    }
}
