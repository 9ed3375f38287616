//! Pages of pushed profiles: a project's services (here), one service over a time range, and a comparison of two time ranges
//! or label sets.
//!
//! `range` and `choice` parse addresses, `presets` writes some; `figures` formats values; `timeline` draws time.

mod choice;
mod compare;
mod figures;
mod presets;
mod range;
mod service;
mod timeline;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use maud::{Markup, html};
use time::OffsetDateTime;
use wingbeat_text::{grouped, plural};

use self::figures::Figures;
pub(super) use self::{
    compare::show as compare,
    service::{flame, pprof, show as service},
};
use super::{
    components::{Part, Tone, kept, moment, name, shortened, sortable, spark},
    layout::{Page, Tab},
    links::{Params, encoded},
    page_context::PageContext,
};
use crate::{
    ApiError,
    profiles::{Series, now_ns},
    service::PUSH_PATH,
};

/// Services per page.
const ROWS: usize = 100;

/// Hours in the sparklines.
const HOURS: i64 = 24;
const SECOND_NS: i64 = 1_000_000_000;
const HOUR_NS: i64 = 3600 * SECOND_NS;

/// Labels that may name a service's host.
const HOST: [&str; 3] = ["host_name", "hostname", "host"];

/// A service in the list.
#[derive(Debug, Default)]
struct Entry {
    newest_ns: i64,
    types: BTreeSet<String>,
    hosts: BTreeSet<String>,
    /// CPU time per hour, oldest first, in nanoseconds.
    cpu: Vec<f64>,
    has_cpu: bool,
}

pub(super) async fn list(context: PageContext, params: Params) -> Result<Page, ApiError> {
    let (app, project) = (context.app.clone(), context.project.uuid.to_string());
    let read = move || {
        let since = now_ns().div_euclid(HOUR_NS) - HOURS + 1;
        let series = app.profiles.series(&project, None)?;
        let hours = app.profiles.hours(&project, since)?;
        // As on the page of a service: time before the first profile does not count as idle.
        let begin_ns = app.profiles.extent(&project)?.map_or(i64::MIN, |it| it.from_ns);
        let profiled_ns = now_ns().saturating_sub(begin_ns).clamp(SECOND_NS, HOUR_NS);
        Ok::<_, ApiError>((entries(&series, &hours, since), profiled_ns as f64 / SECOND_NS as f64))
    };
    let (entries, profiled_s) = context.app.profiles.run(read).await??;
    let content = html! {
        h1 { "Profiles" }
        @if entries.is_empty() { (empty(&context)) } @else { (table(&context, &params, entries, profiled_s)) }
    };
    Ok(Page::of(&context, Tab::Profiles, "Profiles", &[], &content))
}

fn entries(series: &[Series], hours: &[(i64, i64, i64)], since: i64) -> BTreeMap<String, Entry> {
    let mut of_series: HashMap<i64, Vec<(i64, i64)>> = HashMap::new();
    for (series, hour, value) in hours {
        of_series.entry(*series).or_default().push((*hour, *value));
    }
    let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
    for one in series {
        let entry = entries.entry(one.service.clone()).or_default();
        entry.newest_ns = entry.newest_ns.max(one.newest_ns);
        entry.types.insert(one.name.clone());
        entry.hosts.extend(HOST.iter().find_map(|host| one.labels.get(*host)).cloned());
        let is_cpu = one
            .types
            .get(one.shown)
            .is_some_and(|(name, unit)| name == "cpu" && unit == "nanoseconds");
        if !is_cpu {
            continue;
        }
        entry.has_cpu = true;
        entry.cpu.resize(HOURS as usize, 0.0);
        for (hour, value) in of_series.get(&one.id).into_iter().flatten() {
            let place = usize::try_from(hour - since).ok();
            if let Some(sum) = place.and_then(|place| entry.cpu.get_mut(place)) {
                *sum += *value as f64;
            }
        }
    }
    entries
}

fn empty(context: &PageContext) -> Markup {
    let url = &context.app.settings.public_url;
    html! {
        p { "No profiles yet. An agent profiles a whole machine and pushes here:" }
        pre { code {
            "echo KEY > key\n"
            "sudo wingbeat agent --push wingbeat=" (url) " --tenant " (context.project.slug) " --token-file key"
        } }
        p { "Pyroscope clients can push here, too: set their server to " code { (url) } " (" code { (PUSH_PATH) }
            "), and use the key as the token, or as the password of basic authentication. " a href=(context.at("keys")) { "Keys" } }
    }
}

fn table(
    context: &PageContext,
    params: &Params,
    entries: BTreeMap<String, Entry>,
    profiled_s: f64,
) -> Markup {
    let path = context.at("profiles");
    let wanted = params.get("service").unwrap_or_default().to_lowercase();
    let mut rows: Vec<(String, Entry)> = entries
        .into_iter()
        .filter(|(service, _)| service.to_lowercase().contains(&wanted))
        .collect();
    let sorted = sort(&mut rows, params);
    let sorted = (sorted.0.as_str(), sorted.1);
    let part = Part::of(params, rows.len(), ROWS);
    let count = rows.len();
    let head = |text, key, is_number| sortable(text, key, (params, &path), sorted, is_number);
    html! {
        form class="filter" method="get" action=(path) role="search" {
            label class="wide" { span { "Service" }
                input type="search" name="service" value=[params.get("service")] placeholder="part of its name";
            }
            (kept(params, &["service", "page"]))
            button { "Show" }
        }
        p class="quiet" { (plural(count, "service")) }
        @if rows.is_empty() { p { "No service matches." } } @else {
            div class="scroll" tabindex="0" role="region" aria-label="Services" {
                table class="services stacked" {
                    thead { tr {
                        (head("Service", "service", false)) (head("CPU, last hour", "cpu", true))
                        th { "24 hours" } (head("Newest", "newest", true)) th { "Kinds" } th { "Hosts" }
                    } }
                    tbody { @for (service, entry) in part.take(rows) { (row(context, (&service, &entry), profiled_s)) } }
                }
            }
            (part.links(params, &path))
        }
    }
}

/// Sorts as the query asks; by default the highest usage first.
fn sort(rows: &mut [(String, Entry)], params: &Params) -> (String, bool) {
    let key = params.get("sort").unwrap_or("cpu");
    let is_descending = params.get("direction").map_or(key != "service", |it| it == "desc");
    rows.sort_by(|(a_name, a), (b_name, b)| {
        let by_key = match key {
            "newest" => a.newest_ns.cmp(&b.newest_ns),
            "service" => a_name.cmp(b_name),
            _ => a.recent_ns().total_cmp(&b.recent_ns()),
        };
        let by_key = if is_descending { by_key.reverse() } else { by_key };
        by_key.then_with(|| a_name.cmp(b_name))
    });
    (key.to_owned(), is_descending)
}

impl Entry {
    /// CPU time over one hour: the current hour so far, with the rest prorated from the previous one.
    fn recent_ns(&self) -> f64 {
        let [.., before, current] = self.cpu[..] else { return 0.0 };
        let gone = now_ns().rem_euclid(HOUR_NS) as f64 / HOUR_NS as f64;
        current + before * (1.0 - gone)
    }
}

fn row(context: &PageContext, (service, entry): (&str, &Entry), profiled_s: f64) -> Markup {
    let address = format!("{}/{}", context.at("profiles"), encoded(service));
    let newest = OffsetDateTime::from_unix_timestamp_nanos(entry.newest_ns.into());
    let newest = newest.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    // The incomplete hour would look like a drop.
    let whole = entry.cpu.split_last().map_or(&[][..], |(_, whole)| whole);
    let values: Vec<f32> = whole.iter().map(|value| *value as f32).collect();
    html! {
        tr {
            th scope="row" { a href=(address) { (name(&shortened(service))) } }
            td class="number" { @if entry.has_cpu { (Figures::cpu().rate(entry.recent_ns() / profiled_s)) } }
            td { @if entry.has_cpu { a class="plain" href=(address) aria-label="Open" tabindex="-1" { (spark(&values, Tone::Neutral)) } } }
            td class="number" { (moment(newest)) }
            td { (few(&entry.types)) }
            td { (few(&entry.hosts)) }
        }
    }
}

/// Some of the names, and the number of others.
fn few(names: &BTreeSet<String>) -> Markup {
    const FEW: usize = 3;
    html! {
        @for (place, text) in names.iter().take(FEW).enumerate() {
            @if place > 0 { ", " } (name(&shortened(text)))
        }
        @if names.len() > FEW { " and " (grouped(names.len() - FEW)) " more" }
    }
}
