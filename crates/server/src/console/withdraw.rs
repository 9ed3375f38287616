//! Withdrawal of a report: it stays in the store, and is no longer shown.

use axum::{Form, extract::Path, response::Redirect};
use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;
use wingbeat_track::model::Report;

use super::{report::absent, visit::Visit};
use crate::{ApiError, access::Right, series, storage::StorageError};

/// Maximum characters of a reason.
const REASON_MAX: usize = 1000;

/// The form that withdraws the report, for users with the right.
pub(super) fn form(visit: &Visit, report: &Report) -> Markup {
    html! {
        @if visit.may(Right::Manage) {
            details {
                summary { "Delete this report" }
                form class="settle" method="post"
                    action=(visit.at(format_args!("reports/{}/withdraw", report.uuid))) {
                    label class="wide" { span { "Reason (optional)" }
                        input name="reason" maxlength=(REASON_MAX) autocomplete="off"
                            placeholder="measured on a busy machine";
                    }
                    button { "Delete it" }
                }
                p class="quiet" {
                    "No list, plot or history has it afterwards, its alerts go with it, and later reports are                      compared with others. This cannot be undone here."
                }
            }
        }
    }
}

/// Fields of the form.
#[derive(Debug, Deserialize)]
pub(super) struct Fields {
    #[serde(default)]
    reason: String,
}

pub(super) async fn withdraw(
    visit: Visit,
    Path((_, id)): Path<(String, String)>,
    Form(fields): Form<Fields>,
) -> Result<Redirect, ApiError> {
    let uuid = Uuid::try_parse(&id).map_err(|_| absent(&id))?;
    let reason: String = fields.reason.trim().chars().take(REASON_MAX).collect();
    let project = visit.project.stored.clone();
    let write = visit.write(move |databases| {
        let results = &mut databases.results;
        let is_its = results.report(uuid)?.is_some_and(|report| report.project == project);
        let reason = (!reason.is_empty()).then_some(reason);
        let withdrawn = if is_its { results.withdraw(uuid, reason)? } else { None };
        Ok::<_, StorageError>(withdrawn.is_some())
    });
    if !write.await? {
        return Err(absent(&id));
    }
    series::touch(&visit.app, visit.project.id);
    Ok(Redirect::to(&visit.at("reports?deleted=yes")))
}
