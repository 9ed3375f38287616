//! Which slowdowns does `wingbeat bench --against` find, and how often does it see one that is not
//! there? Programs that differ by a known number of instructions are compared again and again.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use serde::Serialize;

use super::{
    Bed, Pace,
    ours::{Change, Verdict},
};
use crate::{
    comparison::{Common, Origin},
    numbers::{Share, Spread},
    table::{NONE, column, show, table},
};

/// A goal in words and numbers: this effect is to be found in this share of comparisons.
const POWER: (f64, f64) = (1.0, 0.9);

/// False verdicts over the same program twice.
const FALSE_MAX: f64 = 0.01;

/// How power is measured.
#[derive(Debug, Args)]
pub(crate) struct PowerArgs {
    /// Comparisons for each effect
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=10_000))]
    rounds: u32,
    /// Comparisons of a program with itself
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=10_000))]
    same: u32,
    /// Slowdowns in percent
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', value_parser = effect)]
    #[arg(default_values_t = [0.25, 0.5, 1.0, 2.0])]
    effect: Vec<f64>,
    /// Seconds of each comparison
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Time of the faster program, the loop around it included
    #[arg(long, value_name = "NS", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=20_000))]
    length: u32,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Serialize)]
struct Record {
    origin: Origin,
    length_ns: u32,
    seconds: u32,
    effects: Vec<Effect>,
}

/// A slowdown with all comparisons of it.
#[derive(Debug, Clone, Serialize)]
struct Effect {
    /// What it was to be.
    aimed_percent: f64,
    /// Instructions that the slower program executes more.
    extra: u64,
    comparisons: Vec<Compared>,
}

/// One comparison.
#[derive(Debug, Clone, Serialize)]
struct Compared {
    /// Whether the slower program was the one under test; else it was the one compared with.
    slower_is_new: bool,
    #[serde(flatten)]
    change: Change,
}

pub(super) fn run(args: &PowerArgs) -> anyhow::Result<ExitCode> {
    let bed = Bed::new(&args.common)?;
    let origin = Origin::now();
    let pace = bed.pace()?;
    let base = pace.work(f64::from(args.length));
    let base_file = bed.file("base.o", &base.object()?)?;
    let mut effects: Vec<(Effect, PathBuf)> = Vec::new();
    for (index, aimed_percent) in [0.0].into_iter().chain(args.effect.iter().copied()).enumerate() {
        let extra = extra(pace, f64::from(args.length), aimed_percent);
        let file = bed.file(&format!("slower{index}.o"), &base.and(extra).object()?)?;
        effects.push((Effect { aimed_percent, extra, comparisons: Vec::new() }, file));
    }
    let wanted = |effect: &Effect| if effect.extra == 0 { args.same } else { args.rounds };
    let comparisons: u64 = effects.iter().map(|(effect, _)| u64::from(wanted(effect))).sum();
    let rounds = effects.iter().map(|(effect, _)| wanted(effect)).max().unwrap_or(0);
    let minutes = (comparisons * u64::from(args.seconds)).div_ceil(60);
    eprintln!("{comparisons} comparisons, some {minutes} minutes");
    let time = format!("{}s", args.seconds);
    'rounds: for round in 0..rounds {
        for (effect, slower) in &mut effects {
            if !is_due(round, rounds, wanted(effect)) {
                continue;
            }
            let slower_is_new = effect.comparisons.len().is_multiple_of(2);
            let pair =
                if slower_is_new { (&**slower, &*base_file) } else { (&*base_file, &**slower) };
            let change = bed.wingbeat.against(pair, &time, u64::from(round));
            let Some(change) = bed.stop.unless_asked(change)? else { break 'rounds };
            eprintln!(
                "round {}, {} instructions more: {:?}, {} pairs",
                round + 1,
                effect.extra,
                change.verdict,
                change.pairs
            );
            effect.comparisons.push(Compared { slower_is_new, change });
        }
    }
    let effects = effects.into_iter().map(|(effect, _)| effect).collect();
    let record = Record { origin, length_ns: args.length, seconds: args.seconds, effects };
    args.common.finish("bench power", &record, &text(&record), &bed.stop)
}

fn effect(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent),
        _ => Err("a percentage above 0, up to 100, is wanted".to_owned()),
    }
}

/// Whether one of `wanted` comparisons, spread evenly over the rounds, is due in this one.
fn is_due(round: u32, rounds: u32, wanted: u32) -> bool {
    let until = |round: u32| u64::from(round) * u64::from(wanted) / u64::from(rounds.max(1));
    until(round + 1) > until(round)
}

/// Instructions that slow down by so much; one at least, unless nothing is wanted.
fn extra(pace: Pace, length_ns: f64, percent: f64) -> u64 {
    let found = pace.instructions(length_ns.max(pace.empty_ns) * percent / 100.0);
    found.max(u64::from(percent > 0.0))
}

impl Compared {
    /// The slower program's time ÷ the other's, − 1.
    fn slowdown(&self) -> Option<f64> {
        let change = self.change.change?;
        Some(if self.slower_is_new { change } else { 1.0 / (1.0 + change) - 1.0 })
    }

    fn says_slower(&self) -> bool {
        self.change.verdict == if self.slower_is_new { Verdict::Worse } else { Verdict::Better }
    }

    fn says_faster(&self) -> bool {
        Self { slower_is_new: !self.slower_is_new, ..self.clone() }.says_slower()
    }
}

impl Effect {
    fn share(&self, what: impl Fn(&Compared) -> bool) -> Share {
        let hits = self.comparisons.iter().filter(|compared| what(compared)).count();
        Share { hits, of: self.comparisons.len() }
    }

    /// Verdicts that are not true.
    fn wrong(&self) -> Share {
        self.share(|it| it.says_faster() || (self.extra == 0 && it.says_slower()))
    }

    /// Whether the goal for this effect is reached; nothing where there is none.
    fn goal(&self) -> &'static str {
        if self.extra == 0 {
            self.wrong().at_most(FALSE_MAX)
        } else if self.aimed_percent >= POWER.0 {
            self.share(Compared::says_slower).at_least(POWER.1)
        } else {
            ""
        }
    }
}

fn text(record: &Record) -> String {
    format!(
        "{}\nPairs of programs of about {} ns, {} s for each comparison. Goals: an effect of {} % is \
         found in {} % of the comparisons, and at most {} % of those of a program with itself end \
         in a verdict of faster or slower.\n\n{}",
        record.origin.text(""),
        record.length_ns,
        record.seconds,
        POWER.0,
        100.0 * POWER.1,
        100.0 * FALSE_MAX,
        effects(&record.effects)
    )
}

fn effects(effects: &[Effect]) -> String {
    let share = |share: Share| match share.value().zip(share.interval()) {
        Some((value, (low, high))) => {
            let [value, low, high] = [value, low, high].map(|it| format!("{:.1} %", 100.0 * it));
            format!("{value} ({low} to {high})")
        }
        None => NONE.to_owned(),
    };
    let median = |values: Vec<f64>| {
        let one = |spread: Spread| Spread { min: spread.median, max: spread.median, ..spread };
        show(Spread::of(values).map(one), 100.0, 2, " %")
    };
    let of = |effect: &Effect, figure: fn(&Compared) -> Option<f64>| {
        effect.comparisons.iter().filter_map(figure).collect::<Vec<f64>>()
    };
    let found = |effect: &&Effect| match effect.extra {
        0 => NONE.to_owned(),
        _ => share(effect.share(Compared::says_slower)),
    };
    table(
        effects,
        &[
            column("effect", |effect: &&Effect| format!("{} %", effect.aimed_percent)),
            column("instructions more", |effect: &&Effect| effect.extra),
            column("median change", |effect: &&Effect| median(of(effect, Compared::slowdown))),
            column("comparisons", |effect: &&Effect| effect.comparisons.len()),
            column("found (95 %)", found),
            column("false verdicts (95 %)", |effect: &&Effect| share(effect.wrong())),
            column("smallest visible", |effect: &&Effect| {
                median(of(effect, |it| it.change.smallest_visible))
            }),
            column("goal", |effect: &&Effect| effect.goal()),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(slower_is_new: bool, change: f64, verdict: Verdict) -> Compared {
        let change =
            Change { change: Some(change), smallest_visible: Some(0.02), pairs: 8, verdict };
        Compared { slower_is_new, change }
    }

    #[test]
    fn verdicts_are_true_or_false() {
        let check = |extra, slower_is_new, verdict, expected: (usize, usize)| {
            let comparisons = vec![compared(slower_is_new, 0.01, verdict)];
            let effect = Effect { aimed_percent: 1.0, extra, comparisons };
            let found = (effect.share(Compared::says_slower).hits, effect.wrong().hits);
            assert_eq!(found, expected, "{extra} {slower_is_new} {verdict:?}");
        };
        check(5, true, Verdict::Worse, (1, 0));
        check(5, true, Verdict::Better, (0, 1));
        check(5, false, Verdict::Better, (1, 0));
        check(5, false, Verdict::Worse, (0, 1));
        check(5, true, Verdict::NoChangeSeen, (0, 0));
        check(5, false, Verdict::Unknown, (0, 0));
        check(0, true, Verdict::Worse, (1, 1));
        check(0, true, Verdict::Better, (0, 1));
        check(0, true, Verdict::NoChangeSeen, (0, 0));
    }

    #[test]
    fn swapped_changes_are_turned_round() {
        assert_eq!(compared(true, 0.25, Verdict::Worse).slowdown(), Some(0.25));
        assert_eq!(compared(false, -0.2, Verdict::Better).slowdown(), Some(0.25));
    }

    #[test]
    fn goals() {
        let check = |aimed_percent, extra, (verdict, count): (Verdict, usize), expected| {
            let comparisons = vec![compared(true, 0.01, verdict); count];
            let effect = Effect { aimed_percent, extra, comparisons };
            assert_eq!(effect.goal(), expected, "{aimed_percent} %, {count} times {verdict:?}");
        };
        let open = "open: too few cases";
        check(0.0, 0, (Verdict::NoChangeSeen, 400), "reached");
        check(0.0, 0, (Verdict::NoChangeSeen, 300), open);
        check(0.0, 0, (Verdict::Worse, 1), "**missed**");
        check(0.5, 2, (Verdict::NoChangeSeen, 100), "");
        check(1.0, 5, (Verdict::Worse, 40), "reached");
        check(1.0, 5, (Verdict::Worse, 2), open);
        check(1.0, 5, (Verdict::Unknown, 2), "**missed**");
        check(1.0, 5, (Verdict::Worse, 0), open);
    }

    #[test]
    fn the_table_shows_shares() {
        let comparisons =
            vec![compared(true, 0.01, Verdict::Worse), compared(true, 0.02, Verdict::NoChangeSeen)];
        let text = effects(&[Effect { aimed_percent: 1.0, extra: 5, comparisons }]);
        assert!(
            text.contains("| 1.50 %        | 2           | 50.0 % (9.5 % to 90.5 %) |"),
            "{text}"
        );
    }

    #[test]
    fn comparisons_are_spread_over_the_rounds() {
        let check = |rounds, wanted, expected: &[u32]| {
            let due: Vec<u32> = (0..rounds).filter(|&it| is_due(it, rounds, wanted)).collect();
            assert_eq!(due, expected, "{wanted} in {rounds}");
        };
        check(6, 6, &[0, 1, 2, 3, 4, 5]);
        check(6, 2, &[2, 5]);
        check(5, 3, &[1, 3, 4]);
        check(3, 0, &[]);
        check(0, 0, &[]);
    }

    #[test]
    fn slowdowns_are_percentages() {
        let check = |text, expected: Option<f64>| assert_eq!(effect(text).ok(), expected, "{text}");
        check("0.25", Some(0.25));
        check("100", Some(100.0));
        check("0", None);
        check("101", None);
        check("much", None);
    }

    #[test]
    fn extra_instructions() {
        let pace = Pace { empty_ns: 10.0, instruction_ns: 0.1 };
        let check =
            |percent, expected| assert_eq!(extra(pace, 50.0, percent), expected, "{percent}");
        check(0.0, 0);
        check(0.01, 1);
        check(1.0, 5);
        check(4.0, 20);
    }
}
