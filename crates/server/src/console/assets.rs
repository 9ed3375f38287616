//! Style and scripts, embedded in the binary, at addresses that change with their contents.

use std::sync::LazyLock;

use axum::{
    extract::Path,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use sha2::{Digest as _, Sha256};
use wingbeat_track::plot::{SCRIPT, STYLE};

use crate::ApiError;

const PAGE_STYLE: &str = include_str!("assets/console.css");
const TABLE: &str = include_str!("assets/table.js");
const FLAME: &str = include_str!("assets/flame.js");
const TIMELINE: &str = include_str!("assets/timeline.js");
const RANGE: &str = include_str!("assets/range.js");
const ICON: &str = include_str!("assets/icon.svg");

/// A static file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asset {
    Style,
    Icon,
    /// Zooms charts.
    Plot,
    /// Sorts tables on the client.
    Table,
    /// Zooms flame graphs.
    Flame,
    /// Selects a time range by dragging.
    Timeline,
}

struct File {
    address: String,
    kind: &'static str,
    content: String,
}

/// In the order of [`Asset`].
static FILES: LazyLock<[File; 6]> = LazyLock::new(|| {
    let file = |name: &str, ending: &str, kind, content: String| {
        let digest = Sha256::digest(content.as_bytes());
        let digits: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        File { address: format!("/assets/{name}.{digits}.{ending}"), kind, content }
    };
    let css = "text/css; charset=utf-8";
    let script = "text/javascript; charset=utf-8";
    [
        file("console", "css", css, format!("{PAGE_STYLE}{STYLE}")),
        file("icon", "svg", "image/svg+xml", ICON.to_owned()),
        // The range script defines a hook for the plot script, and must precede it.
        file("plot", "js", script, format!("{SCRIPT}{RANGE}")),
        file("table", "js", script, TABLE.to_owned()),
        file("flame", "js", script, FLAME.to_owned()),
        file("timeline", "js", script, TIMELINE.to_owned()),
    ]
});

impl Asset {
    pub(super) fn address(self) -> &'static str {
        &FILES[self as usize].address
    }
}

/// Serves a file. Its address identifies its content, so caches may keep it forever.
pub(super) async fn serve(Path(name): Path<String>) -> Result<Response, ApiError> {
    let asked = format!("/assets/{name}");
    let Some(file) = FILES.iter().find(|file| file.address == asked) else {
        return Err(ApiError::not_found(
            "this file of the console is of another version; load the page again",
        ));
    };
    let mut response = file.content.as_str().into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.kind));
    let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
    headers.insert(header::CACHE_CONTROL, forever);
    Ok(response)
}
