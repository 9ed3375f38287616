//! The form of a plot: check boxes for series, a range of days, and axes.

use std::collections::HashSet;

use maud::{Markup, html};
use wingbeat_text::grouped;
use wingbeat_track::model::{BenchmarkName, BranchName, Slug, TestbedName};

use super::{OWN, view};
use crate::{
    console::{
        choice::Choice,
        components::{kept, name, shortened},
        links::{Params, is_glob},
        page_context::PageContext,
    },
    database::Kind,
};

/// Maximum check boxes of a kind.
const BOXES_MAX: usize = 300;

/// Maximum chosen names in a heading.
const NAMED: usize = 2;

pub(super) fn form(context: &PageContext, params: &Params, choice: &Choice) -> Markup {
    let known = &choice.known;
    let branches = known.branches.iter().map(BranchName::as_str);
    // Without a parameter, the main branch is shown.
    let main = choice.branches.iter().map(BranchName::as_str).take(1);
    let asked: Vec<&str> = params.all("branch").collect();
    let asked = if asked.is_empty() { main.collect() } else { asked };
    let fitting: Vec<&str> = params.all("benchmark").collect();
    // A glob, or what does not exist, stands in the field.
    let is_known = |text: &str| known.benchmarks.iter().any(|it| it.as_str() == text);
    let typed = fitting.iter().position(|text| !is_known(text)).filter(|_| !fitting.is_empty());
    let field = typed.map(|place| fitting[place]);
    let ticked: Vec<&str> = fitting.iter().copied().filter(|text| Some(*text) != field).collect();
    let testbeds: Vec<&str> = params.all("testbed").collect();
    let measures: Vec<&str> = params.all("measure").collect();
    let benchmarks = known.benchmarks.iter().map(BenchmarkName::as_str);
    html! {
        form class="filter" method="get" action=(context.at("plot")) role="search" {
            (boxes(context, Kind::Branch, "none", branches, &asked))
            (boxes(context, Kind::Testbed, "all", known.testbeds.iter().map(TestbedName::as_str), &testbeds))
            (boxes(context, Kind::Measure, "all", known.measures.iter().map(Slug::as_str), &measures))
            (boxes(context, Kind::Benchmark, if field.is_some() { "those that fit" } else { "all" }, benchmarks, &ticked))
            label class="wide" { span { "Add benchmarks" }
                input type="search" name="benchmark" value=[field] placeholder="a name, or a glob: parse/*";
            }
            label { span { "From" } input type="date" name="from" value=[params.get("from")]; }
            label { span { "To" } input type="date" name="to" value=[params.get("to")]; }
            (view::selects(params))
            @for hidden in params.all(view::HIDDEN) { input type="hidden" name=(view::HIDDEN) value=(hidden); }
            (kept(params, &[&OWN[..], &["page", "plot"]].concat()))
            button { "Show" }
        }
    }
}

/// Check boxes of a kind, folded, with the chosen ones first.
fn boxes<'a>(
    context: &PageContext,
    kind: Kind,
    none: &str,
    known: impl Iterator<Item = &'a str>,
    asked: &[&'a str],
) -> Markup {
    let label = match kind {
        Kind::Branch => "Branches",
        Kind::Testbed => "Testbeds",
        Kind::Benchmark => "Benchmarks",
        Kind::Measure => "Measures",
    };
    let mut chosen: HashSet<&str> = HashSet::new();
    let asked: Vec<&str> = asked.iter().copied().filter(|it| chosen.insert(it)).collect();
    let others: Vec<&str> = known.filter(|it| !chosen.contains(it)).collect();
    let shown = |stored: &str| {
        if is_glob(stored) {
            stored.to_owned()
        } else {
            context.names.shown(kind, stored).into_owned()
        }
    };
    let named: Vec<String> = asked.iter().take(NAMED).map(|it| shortened(&shown(it))).collect();
    let more = asked.len().saturating_sub(NAMED);
    let room = BOXES_MAX.saturating_sub(asked.len());
    let check = |stored: &str, is_chosen: bool| {
        html! {
            label class="check" {
                input type="checkbox" name=(kind.word()) value=(stored) checked[is_chosen];
                span { (name(&shown(stored))) }
            }
        }
    };
    html! {
        details class="boxes" {
            summary { span class="quiet" { (label) } " "
                span class="chosen" {
                    @if named.is_empty() { (none) } @else { (named.join(", ")) }
                    @if more > 0 { " and " (more) " more" }
                }
            }
            fieldset aria-label=(label) {
                @for stored in &asked { (check(stored, true)) }
                @for stored in others.iter().take(room) { (check(stored, false)) }
                @if others.len() > room {
                    p class="quiet" { (grouped(others.len() - room)) " more: name them in the field “Add benchmarks”." }
                }
            }
        }
    }
}
