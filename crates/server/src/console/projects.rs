//! The list of projects.

use axum::{Extension, extract::State, http::Uri};
use maud::{Markup, html};
use wingbeat_text::{grouped, plural};
use wingbeat_track::{
    model::AlertStatus,
    store::{AlertFilter, ReportSummary},
};

use super::{
    components::{commit, moment, name},
    layout::Page,
    links::encoded,
};
use crate::{
    ApiError, App,
    access::{Caller, Right},
    database::{Database, Kind, Project, Visibility},
};

/// Maximum alerts counted.
const ALERTS_MAX: usize = 1000;

/// A project in the list.
struct Entry {
    project: Project,
    newest: Option<ReportSummary>,
    /// Current name of the newest report's branch.
    branch: Option<String>,
    alerts: usize,
}

pub(super) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Page, ApiError> {
    let looker = caller.clone();
    let read = app.storage.read(move |database| {
        let projects = database.projects()?;
        let visible = projects.into_iter().filter(|project| looker.has(Right::Read, Some(project)));
        visible.map(|project| entry(database, project)).collect::<Result<Vec<_>, ApiError>>()
    });
    let entries = read.await?;
    let content = html! {
        h1 { "Projects" }
        @if entries.is_empty() { (empty(&app, &caller)) } @else { (table(&entries)) }
    };
    Ok(Page::of_server(&caller, uri.path(), "Projects", &content))
}

fn entry(database: &Database, project: Project) -> Result<Entry, ApiError> {
    let newest = database.results.reports(&project.reports(false), 1)?.pop();
    let stored = newest.as_ref().map(|report| report.branch.as_str()).unwrap_or_default();
    let branch = database.entity_stored(project.id, Kind::Branch, stored);
    let branch = branch?.map(|entity| entity.name);
    let active = AlertFilter { status: Some(AlertStatus::Active), ..project.alerts(false) };
    let alerts = database.results.alerts(&active, ALERTS_MAX)?.len();
    Ok(Entry { project, newest, branch, alerts })
}

fn empty(app: &App, caller: &Caller) -> Markup {
    let url = &app.settings.public_url;
    html! {
        @if *caller == Caller::Anonymous {
            p { "There are no public projects. " a href="/auth/login" { "Sign in" }
                " to see the others." }
        } @else {
            p { "There are no projects yet. The first upload creates one. It needs "
                a href="/console/account" { "one of your keys" } ":" }
            pre { code {
                "wingbeat run --host " (url) " --project NAME --key KEY cargo bench\n"
                "bencher run --host " (url) " --project NAME --key KEY 'cargo bench'"
            } }
        }
    }
}

fn table(entries: &[Entry]) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Projects" {
            table class="projects stacked" {
                thead { tr {
                    th { "Project" } th { "Newest report" } th { "Branch" } th { "Commit" }
                    th class="number" { "Active alerts" } th { "Seen by" }
                } }
                tbody {
                    @for Entry { project, newest, branch, alerts } in entries {
                        @let base = format!("/perf/{}", encoded(project.slug.as_str()));
                        tr {
                            th scope="row" { a href=(base) { (name(&project.name)) } }
                            @if let Some(report) = newest {
                                td { a href={ (base) "/reports/" (report.uuid) } { (moment(report.start_time)) } }
                                td { (name(branch.as_deref().unwrap_or(report.branch.as_str()))) }
                                td { (commit(report.hash.as_deref(), project.url.as_deref())) }
                            } @else {
                                td colspan="3" class="quiet" { "no reports yet" }
                            }
                            td class="number" {
                                @if *alerts > 0 {
                                    a class="bad" href={ (base) "/alerts" }
                                        aria-label=(plural(*alerts, "active alert")) { (grouped(*alerts)) }
                                } @else { span class="quiet" { "0" } }
                            }
                            td { (match project.visibility {
                                Visibility::Public => "everybody",
                                Visibility::Internal => "users",
                            }) }
                        }
                    }
                }
            }
        }
    }
}
