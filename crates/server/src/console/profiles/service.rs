//! A service over a time range: timeline, flame graph, and functions, and downloads of them.

use axum::{
    extract::Path,
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};
use wingbeat_pprof::{
    Flame, FunctionRow, Medium, Picture, Request, Side, Stacks, View, pprof::pack,
};
use wingbeat_text::{grouped, plural, share, shortened};

use super::{
    choice::{Choice, Choices},
    presets::presets,
    range::{self, FIELDS, LASTS, span_shown, written},
    timeline::{self, Pen, Timeline},
};
use crate::{
    ApiError, App,
    console::{
        assets::Asset,
        components::{kept, name, sortable},
        flame as picture,
        layout::{Page, Tab},
        links::{Params, encoded},
        page_context::PageContext,
    },
    profiles::{Point, ProfilesError, Reading, Series, Span, now_ns},
};

/// Parameter of the function to show the callers and callees of.
const FUNCTION: &str = "function";
const MINUTE_NS: i64 = 60 * 1_000_000_000;

/// Rows of the function table, by default and with `rows=more`.
const FUNCTIONS: usize = 40;
const FUNCTIONS_MAX: usize = 1000;

/// Number of functions shown, and whether there are more.
pub(super) fn function_rows(params: &Params, count: usize) -> (usize, bool) {
    let is_more = params.get("rows") == Some("more");
    let most = if is_more { FUNCTIONS_MAX } else { FUNCTIONS };
    (count.min(most), !is_more && count > FUNCTIONS)
}

/// A service in a request.
pub(super) struct ServiceQuery {
    pub(super) project: String,
    pub(super) service: String,
    pub(super) params: Params,
}

/// Results of a service over a time range.
pub(super) struct ServiceData {
    choices: Choices,
    /// The series of all labels with the selected type.
    all: Vec<Series>,
    choice: Choice,
    span: Span,
    now_ns: i64,
    timeline: Timeline,
    reading: Reading,
    found: Option<Found>,
}

/// Data to display.
struct Found {
    pictures: Pictures,
    rows: Vec<FunctionRow>,
    /// In the unit of the type; for a gauge, the mean.
    total: f64,
    per_second: f64,
}

enum Pictures {
    Whole(Picture),
    /// Callers and callees of the chosen function; `None` if it does not occur.
    Around(String, Option<[Picture; 2]>),
}

impl ServiceQuery {
    pub(super) fn of(context: &PageContext, service: String, params: &Params) -> Self {
        Self { project: context.project.uuid.to_string(), service, params: params.clone() }
    }

    pub(super) fn series(&self, app: &App) -> Result<Vec<Series>, ApiError> {
        let all = app.profiles.series(&self.project, Some(&self.service))?;
        if all.is_empty() {
            let service = shortened(&self.service, 60);
            return Err(ApiError::not_found(format!(
                "this project has no profiles of a service {service:?}, or they have expired"
            )));
        }
        Ok(all)
    }

    pub(super) fn choice(&self, all: &[Series], label_field: &str) -> Result<Choice, ApiError> {
        Choice::of(all, &self.params, label_field).ok_or_else(|| {
            ApiError::not_found(
                "the service has no profiles of this type; remove `type` from the URL",
            )
        })
    }

    /// Reads the profile of a selection over the requested range.
    pub(super) fn profile(&self, app: &App) -> Result<(Choice, Span, Reading), ApiError> {
        let now_ns = now_ns();
        let choice = self.choice(&self.series(app)?, "label")?;
        let span = FIELDS.read(&self.params, now_ns)?;
        let span = span.unwrap_or_else(|| range::usual(choice.newest_ns(), now_ns));
        let reading = app.profiles.read(&choice.ids(), span, now_ns)?;
        Ok((choice, span, reading))
    }
}

/// Points of each selected series.
pub(super) fn points(
    app: &App,
    choice: &Choice,
    span: Span,
) -> Result<Vec<Vec<Point>>, ProfilesError> {
    // A window may start before the range.
    let wider = Span { from_ns: span.from_ns - 600 * 1_000_000_000, ..span };
    app.profiles.points(&choice.ids(), wider)
}

/// The profile as stacks of the selected type. `None` if it lacks the type.
pub(super) fn side(profile: &Stacks, choice: &Choice) -> Option<Side> {
    profile.side("later", Some(choice.figures.name())).ok()
}

/// Factors from a reading's sums to totals and to rates; for a gauge, both give the mean.
pub(super) fn factors(
    app: &App,
    query: &ServiceQuery,
    choice: &Choice,
    reading: &Reading,
) -> Result<(f64, f64), ApiError> {
    if choice.figures.is_state() {
        let mean = reading.series as f64 / reading.windows.max(1) as f64;
        return Ok((mean, mean));
    }
    let extent = app.profiles.extent(&query.project)?.unwrap_or(reading.span);
    Ok((1.0, 1.0 / reading.span.within(extent).seconds()))
}

fn load(app: &App, query: &ServiceQuery) -> Result<ServiceData, ApiError> {
    let all = query.series(app)?;
    let choices = Choices::of(&all);
    let of_type = Choice::of(&all, &query.params.with("label", ""), "label");
    let all = of_type.map_or_else(Vec::new, |it| it.series);
    let (choice, span, reading) = query.profile(app)?;
    let timeline = Timeline::of(&choice, &points(app, &choice, span)?, span);
    let found = match reading.profile.as_ref().and_then(|it| side(it, &choice)) {
        None => None,
        Some(side) => {
            let (factor, rate) = factors(app, query, &choice, &reading)?;
            let total = side.total() * factor;
            let flame = Flame::single(&side, total);
            let pictures = match query.params.get(FUNCTION) {
                None => Pictures::Whole(draw(&flame, query, &choice, View::Single, Medium::Page)),
                Some(function) => {
                    let around = Flame::around(&side, function, total).map(|[callers, callees]| {
                        let draw = |flame, view| draw(flame, query, &choice, view, Medium::Page);
                        [draw(&callers, View::Single), draw(&callees, View::Hanging)]
                    });
                    Pictures::Around(function.to_owned(), around)
                }
            };
            let rows = flame.functions();
            Some(Found { pictures, rows, total, per_second: side.total() * rate })
        }
    };
    let reading = Reading { profile: None, ..reading };
    Ok(ServiceData { choices, all, choice, span, now_ns: now_ns(), timeline, reading, found })
}

/// The flame graph of one profile.
pub(super) fn draw(
    flame: &Flame,
    query: &ServiceQuery,
    choice: &Choice,
    view: View,
    medium: Medium,
) -> Picture {
    let search = picture::search(&query.params);
    let title = format!("{} {}", query.service, choice.figures.name());
    let request = Request { view, medium, title: &title, search: search.as_deref() };
    flame.draw(request, &|value| choice.figures.total(value))
}

pub(in crate::console) async fn show(
    context: PageContext,
    Path((_, service)): Path<(String, String)>,
    params: Params,
) -> Result<Page, ApiError> {
    let query = ServiceQuery::of(&context, service.clone(), &params);
    let app = context.app.clone();
    let data = context.app.profiles.run(move || load(&app, &query)).await??;
    let path = format!("{}/{}", context.at("profiles"), encoded(&service));
    let content = html! {
        h1 { (name(&shortened(&service, 200))) }
        (filter(&path, &params, &data))
        (time(&path, &params, &data))
        @match &data.found {
            Some(found) => (shown(&path, &params, &data, found)),
            None => (nothing(&path, &params, &data)),
        }
    };
    let title = shortened(&service, 60);
    Ok(Page::of(&context, Tab::Profiles, &title, &[Asset::Flame, Asset::Timeline], &content))
}

fn filter(path: &str, params: &Params, data: &ServiceData) -> Markup {
    let own = ["type", "label", FIELDS.from, FIELDS.until, FIELDS.last, "frame"];
    html! {
        nav class="choice lasts" aria-label="Last" {
            @for (last, words) in LASTS {
                @let current = (params.get(FIELDS.last) == Some(last)).then_some("true");
                a href=(FIELDS.write_last(params, last).with("frame", "").at(path)) aria-current=[current]
                    title={ "The last " (words) } { (last) }
            }
        }
        form class="filter" method="get" action=(path) {
            (data.choices.select_type(&data.choice.figures))
            (data.choices.select_labels(params, "label"))
            (timeline::fields(FIELDS, data.span))
            (kept(params, &own))
            button { "Show" }
        }
    }
}

fn time(path: &str, params: &Params, data: &ServiceData) -> Markup {
    let ServiceData { choice, span, now_ns, timeline, .. } = data;
    let pen = Pen { path, params, fields: FIELDS, marked: None, label: "" };
    html! {
        @if !timeline.is_empty() { (timeline.draw(choice, pen)) }
        (timeline::moves(*span, *now_ns, (path, params)))
    }
}

fn nothing(path: &str, params: &Params, data: &ServiceData) -> Markup {
    let newest = data.choice.newest_ns();
    html! {
        (notes(&data.reading, data.span))
        @if data.choice.series.is_empty() {
            p { "No profile has all of these labels. " a href=(params.with("label", "").at(path)) { "All labels" } }
        } @else if data.reading.damaged == 0 {
            p { "No profiles in this time range. The newest ends at " (range::shown(newest)) " UTC. "
                a href=(FIELDS.write(params, range::usual(newest, i64::MAX)).at(path)) { "Show its last hour" } }
        }
    }
}

fn shown(path: &str, params: &Params, data: &ServiceData, found: &Found) -> Markup {
    let ServiceData { choice, reading, span, .. } = data;
    let figures = &choice.figures;
    let query =
        |tail: &str| FIELDS.write(params, *span).with("frame", "").at(&format!("{path}/{tail}"));
    html! {
        dl class="facts" {
            div { dt { @if figures.is_state() { "Mean" } @else { "Total" } } dd { (figures.total(found.total)) } }
            @if !figures.is_state() { div { dt { "Mean" } dd { (figures.rate(found.per_second)) } } }
            div { dt { "Time" } dd { (span_shown(reading.span)) } }
            div { dt { "Profiles" } dd { (grouped(reading.windows)) " of " (plural(choice.series.len(), "set")) " of labels" } }
            (data.choices.facts())
        }
        (notes(&data.reading, data.span))
        p class="actions" {
            @for (words, params) in presets(&data.all, *span, data.now_ns, params) {
                a class="button" href=(params.at(&format!("{path}/compare"))) { "Compare with " (words) } " "
            }
        }
        p class="actions" {
            a class="button" href=(query("profile.pb.gz")) download { "Download as pprof" } " "
            a class="button" href=(query("flame.svg")) { "Flame graph as SVG" }
        }
        (pictures(path, params, &found.pictures))
        (functions(path, params, data, found))
    }
}

/// The flame graph of everything, or what is around the chosen function.
fn pictures(path: &str, params: &Params, pictures: &Pictures) -> Markup {
    let (function, around) = match pictures {
        Pictures::Whole(picture) => {
            return html! {
                h2 id="flame" { "Flame graph" }
                (picture::section(picture, (path, params), "flame", &html! {}))
            };
        }
        Pictures::Around(function, around) => (function, around),
    };
    let whole = params.with(FUNCTION, "").with(picture::FRAME, "").with(picture::CALLEE, "");
    html! {
        h2 id="flame" { "Callers and callees of " (name(&shortened(function, 200))) }
        p { a href={ (whole.at(path)) "#flame" } { "Show the whole flame graph" } }
        @match around {
            None => p { "No profile of this time range has this function." },
            Some([callers, callees]) => {
                (picture::tools((path, params), "flame", &html! {}))
                h3 { "Callers" }
                (picture::graph(callers, picture::FRAME))
                // They differ in the number of frames that are too narrow.
                @if callers.legend != callees.legend { p class="quiet" { (callers.legend) } }
                h3 { "Callees" }
                (picture::graph(callees, picture::CALLEE))
                p class="quiet" { (callees.legend) }
            }
        }
    }
}

/// What differs from the request.
pub(super) fn notes(reading: &Reading, span: Span) -> Markup {
    let is_rounded = |found_ns: i64, asked_ns: i64| (found_ns - asked_ns).abs() >= MINUTE_NS;
    html! {
        @if let Some(files) = reading.too_many {
            p class="note" { "The whole time takes " (plural(files, "file")) ", too many to read at once. Shown is its end: "
                (span_shown(reading.span)) ". To see more, choose labels, or look at the time in parts." }
        } @else if is_rounded(reading.span.from_ns, span.from_ns) || is_rounded(reading.span.until_ns, span.until_ns) {
            p class="note" { "Older profiles have a resolution of ten minutes. Shown: " (span_shown(reading.span)) "." }
        }
        @if reading.damaged > 0 {
            p class="note bad" { (plural(reading.damaged, "file")) " of " (grouped(reading.files))
                " could not be read; see the server log." }
        }
    }
}

/// The address of what is around a function.
fn around(path: &str, params: &Params, function: &str) -> String {
    let params = params.with("search", "").with(picture::FRAME, "").with(picture::CALLEE, "");
    format!("{}#flame", params.with(FUNCTION, function).at(path))
}

fn functions(path: &str, params: &Params, data: &ServiceData, found: &Found) -> Markup {
    let figures = &data.choice.figures;
    let search = picture::search(params).unwrap_or_default().to_lowercase();
    let mut rows: Vec<&FunctionRow> =
        found.rows.iter().filter(|row| row.name.to_lowercase().contains(&search)).collect();
    let key = params.get("sort").unwrap_or("self");
    let is_descending = params.get("direction").map_or(key != "function", |it| it == "desc");
    rows.sort_by(|a, b| {
        let by_key = match key {
            "function" => a.name.cmp(&b.name),
            "total" => a.total.after.total_cmp(&b.total.after),
            _ => a.own.after.total_cmp(&b.own.after),
        };
        if is_descending { by_key.reverse() } else { by_key }
    });
    let part = |value: f64| share::size(value / found.total);
    let head = |text, key, is_number| {
        sortable(
            text,
            key,
            (params, path),
            (params.get("sort").unwrap_or("self"), is_descending),
            is_number,
        )
    };
    let (shown, has_more) = function_rows(params, rows.len());
    let searched = |row: &FunctionRow| {
        let params = params.with("search", row.name.as_str());
        format!("{}#flame", params.with(FUNCTION, "").with(picture::FRAME, "").at(path))
    };
    html! {
        h2 id="functions" data-functions { "Functions" }
        p class="quiet" { (plural(rows.len(), "function")) @if !search.is_empty() { " with " (name(&search)) }
            @if shown < rows.len() { "; the first " (shown) " are shown" } "." }
        div class="scroll fit" tabindex="0" role="region" aria-label="Functions" {
            table class="tops stacked" {
                thead { tr { (head("Function", "function", false)) (head("Self", "self", true)) th class="number" { "%" }
                    (head("Total", "total", true)) th class="number" { "%" } } }
                tbody { @for row in rows.iter().take(shown) {
                    tr {
                        th scope="row" { span class="pair" {
                            a href=(searched(row)) { (name(&shortened(&row.name, 120))) }
                            a class="around" href=(around(path, params, &row.name)) title="Callers and callees"
                                aria-label={ "Callers and callees of " (shortened(&row.name, 120)) } { "⇅" }
                        } }
                        td class="number" { (figures.total(row.own.after)) }
                        td class="number" { (part(row.own.after)) }
                        td class="number" { (figures.total(row.total.after)) }
                        td class="number" { (part(row.total.after)) }
                    }
                } }
            }
        }
        @if has_more { p { a href={ (params.with("rows", "more").at(path)) "#functions" } { "Show more functions" } } }
    }
}

fn no_profiles() -> ApiError {
    ApiError::not_found("no profiles in this time range")
}

/// As pprof, with all sample types.
pub(in crate::console) async fn pprof(
    context: PageContext,
    Path((_, service)): Path<(String, String)>,
    params: Params,
) -> Result<Response, ApiError> {
    let query = ServiceQuery::of(&context, service, &params);
    let app = context.app.clone();
    let job = move || {
        let (choice, _, reading) = query.profile(&app)?;
        let profile = reading.profile.ok_or_else(no_profiles)?;
        let mut bytes = Vec::new();
        pack(&profile.message(), &mut bytes)
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
        let kind = choice.figures.id();
        Ok::<_, ApiError>((bytes, file_name(&query.service, &kind, reading.span.from_ns)))
    };
    let (bytes, name) = context.app.profiles.run(job).await??;
    let mut response = bytes.into_response();
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("application/octet-stream");
    headers.insert(header::CONTENT_TYPE, kind);
    let disposition = format!("attachment; filename=\"{name}\"");
    if let Ok(disposition) = HeaderValue::from_str(&disposition) {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    Ok(response)
}

/// `nginx-process_cpu-20261128T020000Z.pb.gz`.
fn file_name(service: &str, kind: &str, from_ns: i64) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._".contains(c) { c } else { '-' };
    let kind = kind.split(':').next().unwrap_or_default();
    let time: String = written(from_ns).chars().filter(|c| !"-:".contains(*c)).collect();
    let name = format!("{}-{}", shortest(service), shortest(kind));
    format!("{}-{time}.pb.gz", name.chars().map(plain).collect::<String>())
}

fn shortest(text: &str) -> String {
    text.trim_start_matches('.').chars().take(60).collect()
}

/// The flame graph alone.
pub(in crate::console) async fn flame(
    context: PageContext,
    Path((_, service)): Path<(String, String)>,
    params: Params,
) -> Result<Response, ApiError> {
    let query = ServiceQuery::of(&context, service, &params);
    let app = context.app.clone();
    let job = move || {
        let (choice, _, reading) = query.profile(&app)?;
        let side =
            reading.profile.as_ref().and_then(|it| side(it, &choice)).ok_or_else(no_profiles)?;
        let (factor, _) = factors(&app, &query, &choice, &reading)?;
        let flame = Flame::single(&side, side.total() * factor);
        Ok::<_, ApiError>(draw(&flame, &query, &choice, View::Single, Medium::File).svg)
    };
    Ok(picture::file(context.app.profiles.run(job).await??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_plain_names() {
        let check = |service: &str, expected: &str| {
            let name = file_name(service, "process_cpu:cpu", 1_795_831_200_000_000_000);
            assert_eq!(name, format!("{expected}-process_cpu-20261128T020000Z.pb.gz"));
        };
        check("nginx", "nginx");
        check("../a\"b\r\n", "-a-b--");
        check("ä", "-");
    }
}
