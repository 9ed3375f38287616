//! Thresholds: judge selected series differently from `auto`.

use axum::{
    Form,
    extract::Path,
    response::{IntoResponse as _, Redirect, Response},
};
use maud::{Markup, html};
use serde::Deserialize;
use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_text::grouped;
use wingbeat_track::{
    model::{BranchName, ThresholdModel, threshold::Test},
    store::StoreError,
};

use super::{
    choice::main_branch,
    components::{moment, name, select},
    failure::sentence,
    layout::{Page, Tab},
    links::Params,
    page_context::PageContext,
};
use crate::{
    ApiError,
    access::Right,
    database::{Database, Entity, EntityFilter, Kind, Model, Threshold, ThresholdFilter},
    names::Names,
};

/// Maximum names offered per kind.
const OFFERED: u64 = 500;

/// A threshold with the names that it applies to.
struct Named {
    threshold: Threshold,
    branch: String,
    testbed: String,
    measure: String,
}

impl Named {
    fn of(database: &Database, names: &Names, threshold: Threshold) -> Result<Self, StoreError> {
        let name = |row: i64| {
            let entity = database.entity_of_row(row)?;
            let name = entity.map(|it| names.shown(it.kind, &it.stored).into_owned());
            Ok::<_, StoreError>(name.unwrap_or_default())
        };
        Ok(Self {
            branch: name(threshold.branch)?,
            testbed: name(threshold.testbed)?,
            measure: name(threshold.measure)?,
            threshold,
        })
    }
}

pub(super) async fn list(context: PageContext) -> Result<Page, ApiError> {
    let names = context.names.clone();
    let read = context.read(move |database, project| {
        let database = &database;
        let all = database.thresholds(project.id, ThresholdFilter::default());
        let all = all?;
        let named = all.into_iter().map(|it| Named::of(database, &names, it));
        Ok(named.collect::<Result<Vec<_>, _>>()?)
    });
    let thresholds = read.await?;
    let content = html! {
        h1 { "Thresholds" }
        @if context.project.judges_by_default {
            p { "A measure without a threshold is judged by " code { "auto" }
                ", which learns from the history how noisy it is." }
        } @else { p { "A measure without a threshold is not judged." } }
        @if context.may(Right::Write) {
            p class="actions" { a class="button" href=(context.at("thresholds/add")) { "Add a threshold" } }
        }
        @if thresholds.is_empty() { p class="quiet" { "There is none." } }
        @else { (table(&context, &thresholds)) }
    };
    Ok(Page::of(&context, Tab::Thresholds, "Thresholds", &[], &content))
}

fn table(context: &PageContext, thresholds: &[Named]) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Thresholds" {
            table {
                thead { tr { th { "Measure" } th { "Branch" } th { "Testbed" } th { "Judged by" } th { "Since" } } }
                tbody { @for Named { threshold, branch, testbed, measure } in thresholds {
                    tr {
                        th scope="row" {
                            a href={ (context.at("thresholds/")) (threshold.uuid) } { (name(measure)) }
                        }
                        td { (name(branch)) }
                        td { (name(testbed)) }
                        td { (threshold.model().map_or_else(|| "nothing: its model was removed".to_owned(), |it| words(&it.settings))) }
                        td { (moment(threshold.modified)) }
                    }
                } }
            }
        }
    }
}

/// Description of a model.
fn words(model: &ThresholdModel) -> String {
    let mut parts = vec![model.test.to_string()];
    let mut add = |label: &str, value: Option<String>| {
        parts.extend(value.map(|value| format!("{label} {value}")));
    };
    add("lower boundary", model.lower_boundary.map(|it| it.to_string()));
    add("upper boundary", model.upper_boundary.map(|it| it.to_string()));
    add("at least", model.min_sample_size.map(|it| format!("{} reports", grouped(it))));
    add("at most", model.max_sample_size.map(|it| format!("{} values", grouped(it))));
    add("not older than", model.window.map(|it| format!("{} days", f64::from(it) / 86_400.0)));
    parts.join(", ")
}

pub(super) async fn add(context: PageContext, params: Params) -> Result<Page, ApiError> {
    let given = |name: &str| params.get(name).unwrap_or_default().to_owned();
    let branch = match params.get("branch") {
        Some(branch) => branch.to_owned(),
        None => main_branch_name(&context).await?,
    };
    let chosen = Fields {
        measure: given("measure"),
        branch,
        testbed: given("testbed"),
        ..Fields::of(&ThresholdModel::default())
    };
    form(&context, &chosen, None).await
}

/// Current name of the main branch; empty without any.
async fn main_branch_name(context: &PageContext) -> Result<String, ApiError> {
    let read = context.read(|database, project| {
        let known = database.results.known(&project.stored)?;
        let main = main_branch(database, project, &known)?;
        let stored = main.as_ref().map(BranchName::as_str).unwrap_or_default();
        Ok(database.entity_stored(project.id, Kind::Branch, stored)?)
    });
    Ok(read.await?.map(|entity| entity.name).unwrap_or_default())
}

/// The form that adds a threshold, with previous input and its error.
async fn form(
    context: &PageContext,
    filled: &Fields,
    problem: Option<ApiError>,
) -> Result<Page, ApiError> {
    let read = context.read(|database, project| {
        let of = |kind| {
            let filter = EntityFilter { limit: OFFERED, ..EntityFilter::default() };
            let found = database.entities(project.id, kind, &filter);
            Ok::<Vec<Entity>, ApiError>(found?.0)
        };
        Ok([of(Kind::Measure)?, of(Kind::Branch)?, of(Kind::Testbed)?])
    });
    let [measures, branches, testbeds] = read.await?;
    let choices = |label: &str, field: &str, entities: &[Entity], chosen: &str| {
        let all = entities
            .iter()
            .map(|entity| (entity.name.as_str(), context.names.shown(entity.kind, &entity.stored)));
        select(label, field, None, all, Some(chosen))
    };
    let content = html! {
        h1 { "Add a threshold" }
        @if measures.is_empty() || branches.is_empty() || testbeds.is_empty() {
            p { "There are no results yet, and so no names to choose from." }
        } @else {
            (refusal(problem.as_ref()))
            form class="fields" method="post" action=(context.at("thresholds")) {
                (choices("Measure", "measure", &measures, &filled.measure))
                (choices("Branch", "branch", &branches, &filled.branch))
                (choices("Testbed", "testbed", &testbeds, &filled.testbed))
                (fields(filled))
                p { button { "Add it" } }
            }
        }
    };
    let page = Page::of(context, Tab::Thresholds, "Add a threshold", &[], &content);
    Ok(match problem {
        Some(problem) => page.status(problem.status),
        None => page,
    })
}

/// Why a form was rejected, shown above its input.
fn refusal(problem: Option<&ApiError>) -> Markup {
    html! {
        @if let Some(problem) = problem {
            p class="note bad" role="alert" { (sentence(&problem.message)) }
        }
    }
}

fn fields(filled: &Fields) -> Markup {
    let number = |label: &str, field: &str, value: &str, hint: &str| {
        html! { label { span { (label) }
            input name=(field) value=(value) inputmode="decimal" autocomplete="off" placeholder=(hint);
        } }
    };
    let tests = Test::ALL.iter().map(|test| (test.name(), test.name()));
    html! {
        (select("Test", "test", None, tests, Some(&filled.test)))
        (number("Lower boundary", "lower_boundary", &filled.lower_boundary, "none"))
        (number("Upper boundary", "upper_boundary", &filled.upper_boundary, "none"))
        p class="hint" {
            "A share for percentage, auto and change_point (0.1 is 10 %); a probability for z_score, t_test and \
             log_normal (0.99); a multiple for iqr and delta_iqr; the value itself for static."
        }
        (number("Least number of reports", "min_sample_size", &filled.min_sample_size, "none"))
        (number("Values of history at most", "max_sample_size", &filled.max_sample_size, "all"))
        (number("Oldest value, in days", "window_days", &filled.window_days, "any"))
    }
}

pub(super) async fn show(
    context: PageContext,
    Path((_, id)): Path<(String, String)>,
) -> Result<Page, ApiError> {
    let uuid = Uuid::try_parse(&id).map_err(|_| absent())?;
    one(&context, uuid, None).await
}

/// A threshold, with rejected input.
async fn one(
    context: &PageContext,
    uuid: Uuid,
    refused: Option<(Fields, ApiError)>,
) -> Result<Page, ApiError> {
    let names = context.names.clone();
    let read = context.read(move |database, project| {
        let database = &database;
        let found = database.threshold(project, uuid)?;
        Ok(Named::of(database, &names, found.ok_or_else(absent)?)?)
    });
    let Named { threshold, branch, testbed, measure } = read.await?;
    let place = context.at(format_args!("thresholds/{uuid}"));
    let settings = threshold.model().map(|model| model.settings).unwrap_or_default();
    let (filled, problem) = refused.unzip();
    let content = html! {
        h1 { "Threshold of " (name(&measure)) }
        dl class="facts" {
            div { dt { "Branch" } dd { (name(&branch)) } }
            div { dt { "Testbed" } dd { (name(&testbed)) } }
            div { dt { "Judged by" } dd {
                (threshold.model().map_or_else(|| "nothing".to_owned(), |it| words(&it.settings)))
                @if threshold.is_default() && threshold.model().is_some() { ", by default" }
            } }
        }
        @if threshold.is_default() { (default(context, threshold.model().is_some())) }
        @if context.may(Right::Write) {
            (refusal(problem.as_ref()))
            form class="fields" method="post" action=(place) {
                (fields(&filled.unwrap_or_else(|| Fields::of(&settings))))
                p { button { (if threshold.is_default() { "Judge by this instead" } else { "Save" }) } }
            }
        }
        (earlier(&threshold.models))
        @if context.may(Right::Manage) && !threshold.is_default() {
            form method="post" action={ (place) "/remove" } {
                button { "Remove this threshold" }
            }
        }
    };
    let page =
        Page::of(context, Tab::Thresholds, &format!("Threshold of {measure}"), &[], &content);
    Ok(match problem {
        Some(problem) => page.status(problem.status),
        None => page,
    })
}

/// What judges if nothing is set, and how to change that.
fn default(context: &PageContext, is_judged: bool) -> Markup {
    let settings = context.at("settings");
    html! {
        @if is_judged {
            p { "Nothing is set for this measure, branch and testbed, so " code { "auto" } " judges: it learns from the \
                history how noisy the measure is, and raises alerts from some ten reports on. A threshold replaces \
                it here; the " a href=(settings) { "settings" } " of the project end it everywhere." }
        } @else {
            p { "Nothing is set for this measure, branch and testbed, and the project judges nothing by default, so \
                no alert is raised here." }
        }
    }
}

/// Replaced models, which judged the reports of their time.
fn earlier(models: &[Model]) -> Markup {
    let replaced = models.iter().rev().filter_map(|model| Some((model, model.replaced?)));
    html! {
        @if models.iter().any(|model| model.replaced.is_some()) {
            h2 { "Earlier" }
            ul { @for (model, until) in replaced {
                li { (words(&model.settings)) span class="quiet" { " from " (moment(model.created)) " to " (moment(until)) } }
            } }
        }
    }
}

fn absent() -> ApiError {
    ApiError::not_found("this project has no such threshold; it may have been removed")
}

/// Fields of a form: what to judge, if new, and the model.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Fields {
    branch: String,
    testbed: String,
    measure: String,
    test: String,
    lower_boundary: String,
    upper_boundary: String,
    min_sample_size: String,
    max_sample_size: String,
    window_days: String,
}

impl Fields {
    /// Fills in a model.
    fn of(model: &ThresholdModel) -> Self {
        fn text(number: Option<impl ToString>) -> String {
            number.map(|number| number.to_string()).unwrap_or_default()
        }
        Self {
            test: model.test.name().to_owned(),
            lower_boundary: text(model.lower_boundary),
            upper_boundary: text(model.upper_boundary),
            min_sample_size: text(model.min_sample_size),
            max_sample_size: text(model.max_sample_size),
            window_days: text(model.window.map(|it| f64::from(it) / 86_400.0)),
            ..Self::default()
        }
    }

    fn model(&self) -> Result<ThresholdModel, ApiError> {
        let days: Option<f64> = number("age of the oldest value", &self.window_days)?;
        let test: Test = self.test.parse().map_err(
            |error: wingbeat_track::model::threshold::ThresholdError| {
                ApiError::bad_request(error.to_string())
            },
        )?;
        let model = ThresholdModel {
            test,
            min_sample_size: number("minimum number of reports", &self.min_sample_size)?,
            max_sample_size: number("maximum number of values", &self.max_sample_size)?,
            window: days.map(|days| (days * 86_400.0) as u32),
            lower_boundary: number("lower boundary", &self.lower_boundary)?,
            upper_boundary: number("upper boundary", &self.upper_boundary)?,
        };
        model.check().map_err(|error| ApiError::bad_request(error.to_string()))?;
        Ok(model)
    }
}

/// Parses a numeric field; none if empty.
fn number<T: std::str::FromStr>(what: &str, text: &str) -> Result<Option<T>, ApiError> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let shown: String = text.chars().take(40).collect();
    let wrong = |_| {
        ApiError::bad_request(format!("invalid {what} {shown:?}: expected a number, or nothing"))
    };
    text.parse().map(Some).map_err(wrong)
}

pub(super) async fn create(
    context: PageContext,
    Form(filled): Form<Fields>,
) -> Result<Response, ApiError> {
    let model = match filled.model() {
        Ok(model) => model,
        Err(problem) => return Ok(form(&context, &filled, Some(problem)).await?.into_response()),
    };
    let project = context.project.id;
    let write = context.write(move |database| {
        let database = &database;
        let row =
            |kind, name: &str| database.entity(project, kind, name).map(|it| it.map(|it| it.id));
        let (branch, testbed) =
            (row(Kind::Branch, &filled.branch)?, row(Kind::Testbed, &filled.testbed)?);
        let (Some(branch), Some(testbed), Some(measure)) =
            (branch, testbed, row(Kind::Measure, &filled.measure)?)
        else {
            return Ok(None);
        };
        let now = OffsetDateTime::now_utc();
        database.set_threshold(project, (branch, testbed, measure), Some(&model), now)
    });
    match write.await? {
        Some(threshold) => {
            let place = context.at(format_args!("thresholds/{}", threshold.uuid));
            Ok(Redirect::to(&place).into_response())
        }
        None => Err(ApiError::bad_request(
            "the branch, the testbed or the measure is none of this project; choose them from the lists",
        )),
    }
}

pub(super) async fn change(
    context: PageContext,
    Path((_, uuid)): Path<(String, Uuid)>,
    Form(filled): Form<Fields>,
) -> Result<Response, ApiError> {
    let model = match filled.model() {
        Ok(model) => model,
        Err(problem) => {
            return Ok(one(&context, uuid, Some((filled, problem))).await?.into_response());
        }
    };
    let project = context.project.clone();
    let write = context.write(move |database| {
        let database = &database;
        let Some(known) = database.threshold(&project, uuid)? else { return Ok(None) };
        let place = (known.branch, known.testbed, known.measure);
        database.set_threshold(project.id, place, Some(&model), OffsetDateTime::now_utc())
    });
    write.await?.ok_or_else(absent)?;
    Ok(Redirect::to(&context.at(format_args!("thresholds/{uuid}"))).into_response())
}

pub(super) async fn remove(
    context: PageContext,
    Path((_, uuid)): Path<(String, Uuid)>,
) -> Result<Redirect, ApiError> {
    let project = context.project.clone();
    let write = context.write(move |database| {
        let database = &database;
        match database.threshold(&project, uuid)? {
            Some(known) => database.delete_threshold(known.id).map(Some),
            None => Ok(None),
        }
    });
    write.await?.ok_or_else(absent)?;
    Ok(Redirect::to(&context.at("thresholds")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_read_by_the_rules_of_the_test() {
        let check = |test: &str, upper: &str, days: &str, expected: Option<&str>| {
            let (test, upper_boundary) = (test.to_owned(), upper.to_owned());
            let window_days = days.to_owned();
            let form = Fields { test, upper_boundary, window_days, ..Fields::default() };
            assert_eq!(form.model().ok().map(|it| words(&it)).as_deref(), expected, "{form:?}");
        };
        check("auto", "", "", Some("auto"));
        check(
            "percentage",
            " 0.1 ",
            "30",
            Some("percentage, upper boundary 0.1, not older than 30 days"),
        );
        check("t_test", "1.5", "", None);
        check("percentage", "a tenth", "", None);
        check("student", "", "", None);
    }
}
