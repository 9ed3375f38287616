//! The `/v0` API of the `bencher` client, version 0.6.
//!
//! In addition, `native` (`/v1`) exchanges whole documents, and `push` receives profiles.
//!
//! `endpoints` is the table of all routes: method, path, right, handler, and OpenAPI description.

mod accounts;
mod alerts;
mod entities;
pub(crate) mod names;
mod native;
mod perf;
mod plots;
mod projects;
pub(crate) mod push;
mod reports;
mod request;
mod run;
mod server;
pub mod shapes;
mod spec;
mod thresholds;
mod view;

use utoipa::openapi::schema::Type;

pub(crate) use self::run::notices_of;
use self::{entities::Shape, request::Paging, shapes::*, spec::Endpoint};
use crate::access::{Right, Route};

/// All routes of the API.
pub fn routes() -> Vec<Route> {
    endpoints().into_iter().map(|endpoint| endpoint.route).collect()
}

/// Routes of `/v1` and of pushed profiles, which the OpenAPI document of the `bencher` API omits.
pub fn native_routes() -> Vec<Route> {
    let mut routes = native::routes();
    routes.extend(push::routes());
    routes
}

fn endpoints() -> Vec<Endpoint> {
    let mut all = of_server();
    all.extend(of_projects());
    all.extend(of_organization());
    all.extend(of_reports());
    all.extend(of_thresholds());
    all.extend(of_plots());
    all.extend(accounts::endpoints());
    all.extend(of_entities::<JsonBranch>(
        "/v0/projects/{project}/branches",
        "/v0/projects/{project}/branches/{branch}",
    ));
    all.extend(of_entities::<JsonTestbed>(
        "/v0/projects/{project}/testbeds",
        "/v0/projects/{project}/testbeds/{testbed}",
    ));
    all.extend(of_entities::<JsonBenchmark>(
        "/v0/projects/{project}/benchmarks",
        "/v0/projects/{project}/benchmarks/{benchmark}",
    ));
    all.extend(of_entities::<JsonMeasure>(
        "/v0/projects/{project}/measures",
        "/v0/projects/{project}/measures/{measure}",
    ));
    all
}

fn of_server() -> Vec<Endpoint> {
    let document = |path| {
        Endpoint::get(path, Right::Open, spec::spec, "This document").answer_as(
            "application/json",
            Type::Object,
            "An OpenAPI document",
        )
    };
    vec![
        Endpoint::get("/v0/server/version", Right::Open, server::version, "Get the version")
            .answer::<server::Version>(200, "The client's own version, and that of the server"),
        Endpoint::get(
            "/v0/server/config/console",
            Right::Open,
            server::console,
            "Get the address of the pages",
        )
        .answer::<server::Console>(200, "The address"),
        document("/v0/server/spec"),
        document("/openapi.json"),
        Endpoint::get("/v0/server/config", Right::Admin, server::config, "View the settings")
            .answer_as(
                "application/json",
                Type::Object,
                "Settings that Bencher's servers have, too",
            ),
        Endpoint::put(
            "/v0/server/config",
            Right::Admin,
            server::refuse_config,
            "Refused: flags, variables and a file have the settings",
        ),
        Endpoint::get("/v0/server/stats", Right::Admin, server::stats, "Count what is there")
            .answer_as("application/json", Type::Object, "Counts of a week, a month and all time"),
        Endpoint::post(
            "/v0/server/backup",
            Right::Admin,
            server::refuse_backup,
            "Refused: `wingbeat serve backup` makes them",
        ),
        Endpoint::get("/v0/runners", Right::SignedIn, server::none, "List runners")
            .answer_list::<JsonEntity>("None: benchmarks run where `bencher run` does"),
        Endpoint::get("/v0/specs", Right::Open, server::none, "List hardware of runners")
            .answer_list::<JsonEntity>("None, as there are no runners"),
    ]
}

fn of_projects() -> Vec<Endpoint> {
    let one = "/v0/projects/{project}";
    vec![
        Endpoint::get("/v0/projects", Right::Open, projects::list, "List projects")
            .query::<Paging>()
            .query::<projects::Query>()
            .answer_list::<JsonProject>("The projects that the caller may read"),
        Endpoint::get(one, Right::Read, projects::view, "View a project")
            .answer::<JsonProject>(200, "The project"),
        Endpoint::patch(one, Right::Manage, projects::update, "Change a project")
            .body::<JsonUpdateProject>()
            .answer::<JsonProject>(200, "The changed project"),
        Endpoint::delete(one, Right::Admin, projects::delete, "Delete a project"),
        Endpoint::get(
            "/v0/projects/{project}/allowed/{permission}",
            Right::Read,
            projects::allowed,
            "Check a permission of the caller",
        )
        .answer::<JsonAllowed>(200, "Whether the caller has it"),
        Endpoint::get(
            "/v0/projects/{project}/jobs",
            Right::Read,
            server::none,
            "List jobs of runners",
        )
        .answer_list::<JsonEntity>("None, as there are no runners"),
    ]
}

fn of_organization() -> Vec<Endpoint> {
    let one = "/v0/organizations/{organization}";
    let projects = "/v0/organizations/{organization}/projects";
    vec![
        Endpoint::get(
            "/v0/organizations",
            Right::Open,
            projects::organizations,
            "List the one organization",
        )
        .answer_list::<JsonOrganization>("One organization"),
        Endpoint::get(one, Right::Open, projects::organization, "View the organization")
            .answer::<JsonOrganization>(200, "The organization"),
        Endpoint::post(
            "/v0/organizations",
            Right::SignedIn,
            projects::refuse_organization,
            "Refused: there is one organization",
        ),
        Endpoint::patch(
            one,
            Right::SignedIn,
            projects::refuse_organization,
            "Refused: the organization cannot be changed",
        ),
        Endpoint::get(
            "/v0/organizations/{organization}/allowed/{permission}",
            Right::SignedIn,
            projects::allowed_in_organization,
            "Check a permission of the caller",
        )
        .answer::<JsonAllowed>(200, "Whether the caller has it"),
        Endpoint::get(
            "/v0/organizations/{organization}/usage",
            Right::SignedIn,
            projects::usage,
            "Count the metrics of 30 days",
        )
        .answer_as("application/json", Type::Object, "The number of metrics"),
        Endpoint::get(projects, Right::Open, projects::list_of_organization, "List projects")
            .query::<Paging>()
            .query::<projects::Query>()
            .answer_list::<JsonProject>("The projects that the caller may read"),
        Endpoint::post(projects, Right::Handler, projects::create, "Create a project")
            .body::<JsonNewProject>()
            .answer::<JsonProject>(201, "The new project"),
    ]
}

fn of_reports() -> Vec<Endpoint> {
    let (all, one) = ("/v0/projects/{project}/reports", "/v0/projects/{project}/reports/{report}");
    let alert = "/v0/projects/{project}/alerts/{alert}";
    vec![
        Endpoint::post("/v0/run", Right::Handler, run::run, "Send results")
            .body::<JsonNewRun>()
            .answer::<JsonReport>(201, "The stored report"),
        Endpoint::get(all, Right::Read, reports::list, "List reports")
            .query::<Paging>()
            .query::<reports::Query>()
            .answer_list::<JsonReport>("Reports, newest first by default"),
        Endpoint::post(all, Right::Write, run::report, "Send results")
            .body::<JsonNewReport>()
            .answer::<JsonReport>(201, "The stored report"),
        Endpoint::get(one, Right::Read, reports::view, "View a report")
            .answer::<JsonReport>(200, "The report with results and alerts"),
        Endpoint::delete(one, Right::Manage, reports::delete, "Delete a report"),
        Endpoint::get(
            "/v0/projects/{project}/perf",
            Right::Read,
            perf::perf,
            "Get series of metrics",
        )
        .query::<perf::Query>()
        .answer::<JsonPerf>(200, "A series for each permutation, at most 255"),
        Endpoint::get(
            "/v0/projects/{project}/perf/img",
            Right::Read,
            perf::image,
            "Get a plot as an image",
        )
        .query::<perf::Query>()
        .query::<perf::ImageQuery>()
        .answer_as("image/svg+xml", Type::String, "The image"),
        Endpoint::get(
            "/v0/projects/{project}/metrics/{metric}",
            Right::Read,
            perf::metric,
            "View a metric",
        )
        .answer::<JsonOneMetric>(200, "The metric"),
        Endpoint::get("/v0/projects/{project}/alerts", Right::Read, alerts::list, "List alerts")
            .query::<Paging>()
            .query::<alerts::Query>()
            .answer_list::<JsonAlert>("Alerts, newest first by default"),
        Endpoint::get(alert, Right::Read, alerts::view, "View an alert")
            .answer::<JsonAlert>(200, "The alert"),
        Endpoint::patch(alert, Right::Write, alerts::update, "Change the status of an alert")
            .body::<JsonUpdateAlert>()
            .answer::<JsonAlert>(200, "The changed alert"),
    ]
}

fn of_thresholds() -> Vec<Endpoint> {
    let (all, one) =
        ("/v0/projects/{project}/thresholds", "/v0/projects/{project}/thresholds/{threshold}");
    vec![
        Endpoint::get(all, Right::Read, thresholds::list, "List thresholds")
            .query::<Paging>()
            .query::<thresholds::Query>()
            .answer_list::<JsonThreshold>("Thresholds, newest first by default"),
        Endpoint::post(all, Right::Write, thresholds::create, "Create a threshold")
            .body::<JsonNewThreshold>()
            .answer::<JsonThreshold>(201, "The new threshold"),
        Endpoint::get(one, Right::Read, thresholds::view, "View a threshold")
            .query::<thresholds::ViewQuery>()
            .answer::<JsonThreshold>(200, "The threshold"),
        Endpoint::put(one, Right::Write, thresholds::update, "Replace the model of a threshold")
            .body::<JsonUpdateModel>()
            .answer::<JsonThreshold>(200, "The changed threshold"),
        Endpoint::delete(one, Right::Manage, thresholds::delete, "Delete a threshold"),
    ]
}

fn of_plots() -> Vec<Endpoint> {
    let (all, one) = ("/v0/projects/{project}/plots", "/v0/projects/{project}/plots/{plot}");
    vec![
        Endpoint::get(all, Right::Read, plots::list, "List pinned plots")
            .query::<Paging>()
            .query::<plots::Query>()
            .answer_list::<JsonPlot>("The plots, in their order"),
        Endpoint::post(all, Right::Manage, plots::create, "Pin a plot")
            .body::<JsonNewPlot>()
            .answer::<JsonPlot>(201, "The new plot"),
        Endpoint::get(one, Right::Read, plots::view, "View a plot")
            .answer::<JsonPlot>(200, "The plot"),
        Endpoint::patch(one, Right::Manage, plots::update, "Change a plot")
            .body::<JsonUpdatePlot>()
            .answer::<JsonPlot>(200, "The changed plot"),
        Endpoint::delete(one, Right::Manage, plots::delete, "Delete a plot"),
    ]
}

fn of_entities<S: Shape + utoipa::ToSchema>(all: &'static str, one: &'static str) -> Vec<Endpoint> {
    let word = S::KIND.word();
    let summary = |verb: &str| format!("{verb} a {word}");
    vec![
        Endpoint::get(all, Right::Read, entities::list::<S>, &format!("List {word} entities"))
            .query::<Paging>()
            .query::<entities::Query>()
            .answer_list::<S>("Entities by name"),
        Endpoint::post(all, Right::Write, entities::create::<S>, &summary("Create"))
            .body::<JsonNewEntity>()
            .answer::<S>(201, &format!("The created {word}")),
        Endpoint::get(one, Right::Read, entities::view::<S>, &summary("View"))
            .answer::<S>(200, &format!("The {word}")),
        Endpoint::patch(one, Right::Write, entities::update::<S>, &summary("Change or archive"))
            .body::<JsonUpdateEntity>()
            .answer::<S>(200, &format!("The changed {word}")),
        Endpoint::delete(one, Right::Manage, entities::delete::<S>, &summary("Delete")),
    ]
}
