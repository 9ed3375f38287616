//! Pictures of causes, requested individually: content, type, and errors.

use std::error::Error;

use axum::{Router, http::StatusCode};
use wingbeat_server::{App, router, settings::Settings};

use super::{get, invented};

/// Links of a page with this prefix.
fn addresses<'p>(page: &'p str, begin: &str) -> Vec<&'p str> {
    let links = page.split("href=\"").filter_map(|rest| rest.split_once('"'));
    links.map(|(address, _)| address).filter(|it| it.starts_with(begin)).collect()
}

/// Checks all pictures at an address with their query: harmless, bounded, and with functions.
async fn check_pictures(router: &Router, base: &str, query: &str) {
    for view in ["difference", "vanished", "before", "after"] {
        let (status, headers, svg) = get(router, &format!("{base}/cause/{view}.svg{query}")).await;
        assert_eq!(status, StatusCode::OK, "{view}: {svg}");
        assert_eq!(headers["content-type"], "image/svg+xml");
        assert_eq!(headers["content-security-policy"], "default-src 'none'; sandbox");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>"), "{view}");
        assert!(
            svg.contains("<title>&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;\n"),
            "{view}"
        );
        assert!(!svg.contains("<script") && !svg.contains("<img") && !svg.contains('\u{202e}'));
        assert!(svg.len() < 2_000_000, "{view}: {} bytes", svg.len());
    }
    let (status, _, page) = get(router, &format!("{base}/cause/other.svg{query}")).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(page.contains("no such picture"), "{page}");
}

#[test]
fn pictures_of_causes() -> Result<(), Box<dyn Error>> {
    let temporary = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let app = App::open(Settings::of(temporary.path()))?;
        invented::trials(&app).await?;
        let router = router(&app);
        let (_, _, alerts) = get(&router, "/perf/hostile/alerts?status=all").await;
        let (mut with, mut without) = (0, 0);
        for alert in addresses(&alerts, "/perf/hostile/alerts/") {
            let (_, _, page) = get(&router, alert).await;
            if page.contains("id=\"cause\"") {
                with += 1;
                check_pictures(&router, alert, "").await;
            } else {
                without += 1;
                let (status, _, page) = get(&router, &format!("{alert}/cause/after.svg")).await;
                assert_eq!(status, StatusCode::NOT_FOUND, "{page}");
                assert!(page.contains("nothing was profiled"), "{page}");
            }
        }
        assert!(with > 0 && without > 0, "{with} alerts with a cause, {without} without");
        let none = "/perf/hostile/alerts/00000000-0000-0000-0000-000000000000/cause/after.svg";
        assert_eq!(get(&router, none).await.0, StatusCode::NOT_FOUND);

        let report = |number: u128| uuid::Uuid::from_u128(number + 1000);
        let sides = format!("/perf/hostile/compare/{}..{}", report(19), report(29));
        let (_, _, page) = get(&router, &sides).await;
        let links = addresses(&page, &format!("{sides}/cause?"));
        let [link] = &links[..] else { panic!("one row has profiles on both sides: {links:?}") };
        let link = link.replace("&amp;", "&");
        let (status, _, page) = get(&router, &link).await;
        assert!(status == StatusCode::OK && page.contains("class=\"flame\""), "{page}");
        let (_, query) = link.split_once('?').ok_or("a query")?;
        check_pictures(&router, &sides, &format!("?{query}")).await;
        let check = async |query: &str, expected: StatusCode, words: &str| {
            let (status, _, page) = get(&router, &format!("{sides}/cause{query}")).await;
            assert_eq!(status, expected, "{page}");
            assert!(page.contains(words), "{page}");
        };
        check("", StatusCode::BAD_REQUEST, "must end with ?benchmark").await;
        check("?benchmark=x&measure=latency", StatusCode::OK, "no metric of it in common").await;
        Ok(())
    })
}
