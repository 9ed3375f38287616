//! Pinned plots: titled selections of series, linked from a project's first pages.

use axum::{Form, extract::Path, response::Redirect};
use maud::{Markup, html};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;
use wingbeat_text::plural;

use super::{
    choice::Choice,
    components::{day, name},
    layout::{Page, Tab},
    links::{Params, is_glob},
    page_context::PageContext,
    plot::view,
};
use crate::{
    ApiError,
    access::Right,
    database::{Database, Entity, Kind, PinnedPlot, PlotFilter, PlotSettings, Project},
    names::Names,
};

/// Plots linked from the first pages.
const LINKED: u64 = 8;

/// Plots listed.
const LISTED: u64 = 500;

/// Maximum benchmarks of a plot: each is part of its address.
const BENCHMARKS_MAX: usize = 50;

/// Maximum characters of a title, as for `bencher plot create`.
const TITLE_MAX: usize = 64;

/// Time ranges of a plot, in days.
const WINDOWS: [(u32, &str); 5] =
    [(7, "a week"), (30, "30 days"), (90, "90 days"), (365, "a year"), (3650, "ten years")];

/// Kinds of entities that a plot selects, with their parameter names.
const KINDS: [(Kind, &str); 4] = [
    (Kind::Branch, "branch"),
    (Kind::Testbed, "testbed"),
    (Kind::Benchmark, "benchmark"),
    (Kind::Measure, "measure"),
];

/// A plot with its selection.
pub(super) struct Pin {
    pub(super) plot: PinnedPlot,
    entities: Vec<Entity>,
}

impl Pin {
    fn of(database: &Database, plot: PinnedPlot) -> Result<Self, ApiError> {
        let mut entities = Vec::new();
        for row in &plot.entities {
            entities.extend(database.entity_of_row(*row)?);
        }
        Ok(Self { plot, entities })
    }

    fn names(&self, kind: Kind) -> impl Iterator<Item = &Entity> {
        self.entities.iter().filter(move |entity| entity.kind == kind)
    }

    pub(super) fn title(&self) -> String {
        match &self.plot.settings.title {
            Some(title) => title.clone(),
            None => self.words(),
        }
    }

    /// Description: `main, ci-runner, 3 benchmarks, Latency`.
    fn words(&self) -> String {
        let mut parts = Vec::new();
        for (kind, word) in KINDS {
            let few: Vec<&str> = self.names(kind).take(3).map(|it| it.name.as_str()).collect();
            match self.names(kind).count() {
                0 => {}
                1 | 2 => parts.push(few.join(" and ")),
                many => parts.push(plural(many, word)),
            }
        }
        if parts.is_empty() { "everything".to_owned() } else { parts.join(", ") }
    }

    /// Address of the current plot.
    fn address(&self, context: &PageContext, now: OffsetDateTime) -> String {
        let mut params = Params::default();
        for (kind, word) in KINDS {
            for entity in self.names(kind) {
                params = params.and(word, entity.stored.as_str());
            }
        }
        let window = Duration::seconds(self.plot.settings.window_s.into());
        if let Some(from) = now.checked_sub(window) {
            params = params.and("from", day(from));
        }
        let params = view::with_settings(&params, &self.plot.settings);
        params.and("plot", self.plot.uuid.to_string()).at(&context.at("plot"))
    }
}

/// The first plots of a project.
pub(super) fn first(database: &Database, project: &Project) -> Result<Vec<Pin>, ApiError> {
    all(database, project, LINKED)
}

fn all(database: &Database, project: &Project, limit: u64) -> Result<Vec<Pin>, ApiError> {
    let filter = PlotFilter { limit, ..PlotFilter::default() };
    let (plots, _) = database.plots(project.id, filter)?;
    plots.into_iter().map(|plot| Pin::of(database, plot)).collect()
}

/// Links to the first plots; empty without any.
pub(super) fn links(context: &PageContext, pins: &[Pin]) -> Markup {
    html! {
        @if !pins.is_empty() {
            nav class="pins" aria-label="Pinned plots" {
                a class="quiet" href=(context.at("plots")) { "Pinned" }
                @for pin in pins {
                    a href={ (context.at("plots/")) (pin.plot.uuid) } { (name(&pin.title())) }
                }
            }
        }
    }
}

pub(super) async fn list(context: PageContext) -> Result<Page, ApiError> {
    let read = context.read(|database, project| all(database, project, LISTED));
    let pins = read.await?;
    let content = html! {
        h1 { "Pinned plots" }
        @if pins.is_empty() {
            p { "There is none. " a href=(context.at("plot")) { "Plot some series" } ", and pin what you see." }
        } @else {
            div class="scroll fit" tabindex="0" role="region" aria-label="Pinned plots" {
                table {
                    thead { tr { th { "Plot" } th { "Shows" } th { "Looks back" } @if context.may(Right::Manage) { td {} } } }
                    tbody { @for pin in &pins { (line(&context, pin)) } }
                }
            }
        }
    };
    Ok(Page::of(&context, Tab::Plot, "Pinned plots", &[], &content))
}

fn line(context: &PageContext, pin: &Pin) -> Markup {
    let place = context.at(format_args!("plots/{}", pin.plot.uuid));
    let days = pin.plot.settings.window_s / 86_400;
    let title = pin.title();
    html! {
        tr {
            th scope="row" { a href=(place) { (name(&title)) } }
            td { (name(&pin.words())) }
            td { (WINDOWS.iter().find(|(known, _)| *known == days)
                .map_or_else(|| plural(days as usize, "day"), |(_, words)| (*words).to_owned())) }
            @if context.may(Right::Manage) { td {
                form method="post" action={ (place) "/remove" } {
                    button aria-label={ "Remove " (title) } { "Remove" }
                }
            } }
        }
    }
}

/// Redirects to the current plot.
pub(super) async fn open(
    context: PageContext,
    Path((_, id)): Path<(String, String)>,
) -> Result<Redirect, ApiError> {
    let read = context.read(move |database, project| find(database, project, &id));
    let pin = read.await?.ok_or_else(absent)?;
    Ok(Redirect::to(&pin.address(&context, OffsetDateTime::now_utc())))
}

/// The plot with this UUID, if it belongs to the project.
pub(super) fn find(
    database: &Database,
    project: &Project,
    id: &str,
) -> Result<Option<Pin>, ApiError> {
    let Ok(uuid) = Uuid::try_parse(id) else { return Ok(None) };
    let plot = database.plot(project.id, uuid)?;
    plot.map(|plot| Pin::of(database, plot)).transpose()
}

fn absent() -> ApiError {
    ApiError::not_found("this project has no such plot; it may have been removed")
}

/// The form that pins the page's selection, for users with the right.
pub(super) fn form(context: &PageContext, params: &Params, choice: &Choice) -> Markup {
    let globs: Vec<&str> = params.all("benchmark").filter(|it| is_glob(it)).collect();
    html! {
        @if context.may(Right::Manage) {
            details {
                summary { "Pin this plot" }
                form class="filter" method="post" action=(context.at("plots")) {
                    label class="wide" { span { "Title" }
                        input name="title" required maxlength=(TITLE_MAX) autocomplete="off"
                            placeholder="what to look at each morning";
                    }
                    label { span { "It shows the last" } select name="days" {
                        @for (days, words) in WINDOWS { option value=(days) selected[days == 90] { (words) } }
                    } }
                    @for (name, value) in params.iter().filter(|(name, _)| is_pinned(name)) {
                        input type="hidden" name=(name) value=(value);
                    }
                    button { "Pin it" }
                }
                // Bencher's plots list benchmarks.
                @if !globs.is_empty() {
                    p class="quiet" { "It will list the " (plural(choice.benchmarks.len(), "benchmark")) " that "
                        (name(&globs.join(", "))) " finds now. Link to this page instead to see later ones too." }
                }
            }
        }
    }
}

fn is_pinned(name: &str) -> bool {
    view::AXES.contains(&name) || KINDS.iter().any(|(_, word)| *word == name)
}

pub(super) async fn create(
    context: PageContext,
    Form(fields): Form<Vec<(String, String)>>,
) -> Result<Redirect, ApiError> {
    let params = Params::of(fields);
    let title = params.get("title").unwrap_or_default().trim().to_owned();
    if title.is_empty() || title.len() > TITLE_MAX || title.chars().any(char::is_control) {
        return Err(ApiError::bad_request(format!(
            "a title has 1 to {TITLE_MAX} bytes and no control characters; choose another one"
        )));
    }
    let days = params.get("days").and_then(|days| days.parse().ok());
    let days = WINDOWS.iter().map(|(days, _)| *days).find(|known| Some(*known) == days);
    let days = days.ok_or_else(|| ApiError::bad_request("choose one of the listed durations"))?;
    let axes = view::settings(&params)?;
    let settings = PlotSettings { title: Some(title), window_s: days * 86_400, ..axes };
    let (names, project) = (context.names.clone(), context.project.clone());
    let write = move |database: &mut Database| {
        let rows = rows(database, &project, &params, &names)?;
        let now = OffsetDateTime::now_utc();
        let made = database.create_plot(project.id, &settings, &rows, None, now);
        Ok::<_, ApiError>(made?)
    };
    context.app.storage.write(write).await?;
    Ok(Redirect::to(&context.at("plots")))
}

/// Rows of the entities that a query selects. Empty for a kind that it does not restrict.
fn rows(
    database: &Database,
    project: &Project,
    params: &Params,
    names: &Names,
) -> Result<Vec<i64>, ApiError> {
    let choice = Choice::of(database, project, params, names)?;
    if choice.missing.is_some() {
        return Err(ApiError::bad_request("no series fits that, so there is nothing to pin"));
    }
    if choice.benchmarks.len() > BENCHMARKS_MAX {
        return Err(ApiError::bad_request(format!(
            "a pinned plot names {BENCHMARKS_MAX} benchmarks at most, and {} fit that; choose fewer, or all by \
             naming none",
            choice.benchmarks.len()
        )));
    }
    let mut chosen: Vec<(Kind, &str)> = Vec::new();
    chosen.extend(choice.branches.iter().map(|it| (Kind::Branch, it.as_str())));
    chosen.extend(choice.testbeds.iter().map(|it| (Kind::Testbed, it.as_str())));
    chosen.extend(choice.benchmarks.iter().map(|it| (Kind::Benchmark, it.as_str())));
    chosen.extend(choice.measures.iter().map(|it| (Kind::Measure, it.as_str())));
    let mut rows = Vec::new();
    for (kind, stored) in chosen {
        let found = database.entity_stored(project.id, kind, stored);
        rows.extend(found?.map(|entity| entity.id));
    }
    Ok(rows)
}

pub(super) async fn remove(
    context: PageContext,
    Path((_, id)): Path<(String, String)>,
) -> Result<Redirect, ApiError> {
    let project = context.project.clone();
    let write = move |database: &mut Database| {
        let pin = find(database, &project, &id)?.ok_or_else(absent)?;
        database.delete_plot(pin.plot.id)?;
        Ok::<_, ApiError>(())
    };
    context.app.storage.write(write).await?;
    Ok(Redirect::to(&context.at("plots")))
}
