//! Downloads of a service's time range: pprof, and the picture.

use axum::{
    extract::Path,
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use wingbeat_pprof::{Flame, Medium, pprof::pack};

use super::{
    range::written,
    service::{ServiceQuery, draw, factors, side},
};
use crate::{
    ApiError,
    console::{flame as picture, links::Params, visit::Visit},
};

fn nothing() -> ApiError {
    ApiError::not_found("no profiles in this time range")
}

/// As pprof, with all sample types.
pub(in crate::console) async fn pprof(
    visit: Visit,
    Path((_, service)): Path<(String, String)>,
    params: Params,
) -> Result<Response, ApiError> {
    let query = ServiceQuery::of(&visit, service, &params);
    let app = visit.app.clone();
    let job = move || {
        let (choice, _, reading) = query.profile(&app)?;
        let profile = reading.profile.ok_or_else(nothing)?;
        let mut bytes = Vec::new();
        pack(&profile.message(), &mut bytes)
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
        let kind = choice.figures.id();
        Ok::<_, ApiError>((bytes, file_name(&query.service, &kind, reading.span.from_ns)))
    };
    let (bytes, name) = visit.app.profiles.run(job).await??;
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
    visit: Visit,
    Path((_, service)): Path<(String, String)>,
    params: Params,
) -> Result<Response, ApiError> {
    let query = ServiceQuery::of(&visit, service, &params);
    let app = visit.app.clone();
    let job = move || {
        let (choice, _, reading) = query.profile(&app)?;
        let side = reading.profile.as_ref().and_then(|it| side(it, &choice)).ok_or_else(nothing)?;
        let (factor, _) = factors(&app, &query, &choice, &reading)?;
        let flame = Flame::single(&side, side.total() * factor);
        Ok::<_, ApiError>(draw(&flame, &query, &choice, Medium::File).svg)
    };
    Ok(picture::file(visit.app.profiles.run(job).await??))
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
