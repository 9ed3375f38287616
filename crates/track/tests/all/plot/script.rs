//! Runs the script of a page in a JavaScript engine: it draws the same as the image, searches, and navigates.

use super::*;
use rquickjs::{Coerced, Context, Ctx, Runtime, Value};

const DRAW: &str =
    concat!(include_str!("../../../src/plot/draw.js"), include_str!("../../../src/plot/look.js"));

/// The parts of a browser that the page's script uses.
const STUB: &str = include_str!("page_stub.js");

/// The charts of a page, each with its axis once more, as markup.
pub(crate) fn pictures(page: &str) -> Vec<&str> {
    let picture = |rest: &'_ str| rest.find("</figure>");
    let figures =
        page.match_indices("<figure><svg").map(|(begin, _)| &page[begin + "<figure>".len()..]);
    figures.map(|rest| &rest[..picture(rest).expect("its end")]).collect()
}

fn parts(page: &str) -> (&str, &str) {
    let (_, rest) = page.split_once("id=\"data\">").expect("data");
    let (data, rest) = rest.split_once("</script>").expect("its end");
    let (_, script) = rest.split_once("<script>").expect("a script");
    (data, script.split_once("</script>").expect("its end").0)
}

/// Runs sources one after another, and returns their results as text.
fn run(sources: &[String]) -> Vec<String> {
    let runtime = Runtime::new().expect("an engine");
    let context = Context::full(&runtime).expect("a context");
    context.with(|ctx| {
        let run = |source: &String| {
            // Like a script in a page. Without a value the engine cannot produce a text.
            let found = ctx.eval::<Coerced<String>, _>(source.as_str());
            found.unwrap_or_else(|error| panic!("{error}: {}", exception(&ctx))).0
        };
        sources.iter().map(run).collect()
    })
}

/// Evaluates expressions over the data of a chart's page.
fn evaluated(chart: &Chart, expressions: &[&str]) -> Vec<String> {
    let page = html(chart).expect("a page");
    let (data, _) = parts(&page);
    let begin = format!("{DRAW}\nvar data = {data}; var all = [-0.5, widthOf(data) - 0.5];");
    let mut found = run(&texts(&[&[&*begin], expressions]));
    found.split_off(1)
}

/// Evaluates expressions in a page, after its script has run.
fn in_page(chart: &Chart, expressions: &[&str]) -> Vec<String> {
    let page = html(chart).expect("a page");
    let (data, script) = parts(&page);
    let begin = format!("var source = {data};\n{STUB}");
    let mut found = run(&texts(&[&[&*begin, script], expressions]));
    found.split_off(2)
}

fn texts(parts: &[&[&str]]) -> Vec<String> {
    parts.concat().into_iter().map(str::to_owned).collect()
}

fn exception(ctx: &Ctx<'_>) -> String {
    let caught: Value<'_> = ctx.catch();
    caught.as_exception().map_or_else(String::new, ToString::to_string)
}

/// Splits markup into its numbers and the text between them.
fn tokens(markup: &str) -> (Vec<String>, Vec<f64>) {
    let (mut texts, mut numbers, mut text, mut number) =
        (Vec::new(), Vec::new(), String::new(), String::new());
    for c in markup.chars().chain(['\n']) {
        let is_sign = c == '-' && !text.ends_with(char::is_alphanumeric);
        if c.is_ascii_digit() || !number.is_empty() && c == '.' || number.is_empty() && is_sign {
            number.push(c);
            continue;
        }
        match number.parse() {
            Ok(value) => {
                texts.push(std::mem::take(&mut text));
                numbers.push(value);
            }
            Err(_) => text.push_str(&number),
        }
        number.clear();
        text.push(c);
    }
    texts.push(text);
    (texts, numbers)
}

#[test]
fn the_script_draws_what_the_picture_shows() {
    let plain = [busy(), many(), single(), odd(), iterations(), wide(), steps_together()];
    let scales = [Scale::Auto, Scale::Logarithmic].map(far_limits);
    let forced = Chart { scale: Scale::Logarithmic, ..odd() };
    for chart in plain.into_iter().chain(scales).chain([versions(), forced]) {
        let page = html(&chart).expect("a page");
        for (index, picture) in pictures(&page).into_iter().enumerate() {
            let drawn = &evaluated(&chart, &[&format!("drawPanel(data, {index}, all)")])[0];
            let ((texts, numbers), (others, other_numbers)) = (tokens(picture), tokens(drawn));
            for (text, other) in texts.iter().zip(&others) {
                assert_eq!(text, other, "{}, {index}:\n{picture}\n{drawn}", chart.title);
            }
            assert_eq!(texts.len(), others.len(), "{}, {index}", chart.title);
            for (number, other) in numbers.iter().zip(&other_numbers) {
                // A tenth of a pixel, the possible error of rounding to tenths.
                let is_near = (number - other).abs() <= 0.1001;
                assert!(is_near, "{}, {index}: {number} {other}\n{picture}\n{drawn}", chart.title);
            }
        }
    }
}

#[test]
fn a_part_is_drawn_with_its_own_axis() {
    let found = evaluated(
        &wide(),
        &["drawPanel(data, 0, [-0.5, 9.5])", "drawPanel(data, 0, [14.5, 24.5])"],
    );
    // Before the step all values are near 30 ns.
    assert!(found[0].contains("Latency, ns") && !found[0].contains("logarithmic"), "{}", found[0]);
    assert!(
        found[1].contains("logarithmic") && found[1].contains("class=\"alert\""),
        "{}",
        found[1]
    );
    assert!(!found[0].contains("class=\"alert\""));
    assert!(!found.concat().contains("NaN"), "{found:?}");
}

#[test]
fn panels_are_found_by_words_of_all_names() {
    let found = |query: &str| {
        let expression = format!(
            "data.panels.filter((panel) => isFound(panel, {query:?})).map((panel) => panel.name)"
        );
        evaluated(&many(), &[&expression]).remove(0)
    };
    assert_eq!(found("case_7"), "group_1/case_7 · Latency");
    assert_eq!(found("LATENCY  case_12"), "group_2/case_12 · Latency");
    assert_eq!(found("feature/two group_3/case_17"), "group_3/case_17 · Latency");
    assert_eq!(found("").split(',').count(), 18);
    assert_eq!(found("nothing"), "");
}

#[test]
fn keys_lead_from_value_to_value() {
    let mut short = line("short", [1.0, 2.0]);
    short.dots[1].report = 9;
    let lines = vec![line("long", (0..10).map(f64::from)), short];
    let chart = chart("", 10, Duration::hours(1), vec![panel("score", lines)]);
    let check = |from: &str, key: &str, expected: &str| {
        let found = evaluated(&chart, &[&format!("moved(data, data.panels[0], {from}, {key:?})")]);
        assert_eq!(found[0], expected, "{from} {key}");
    };
    check("[0, 9]", "ArrowLeft", "0,8");
    check("[0, 9]", "ArrowRight", "0,9");
    check("[0, 9]", "Home", "0,0");
    check("[0, 3]", "End", "0,9");
    // Moves to the nearest point on the other line.
    check("[0, 8]", "ArrowDown", "1,1");
    check("[1, 1]", "ArrowUp", "0,9");
    check("[0, 9]", "x", "null");
}

#[test]
fn what_is_said_of_a_value_is_what_tables_say() {
    let found = evaluated(
        &wide(),
        &["about(data, data.panels[0], [0, 20])", "about(data, data.panels[0], [1, 0])"],
    );
    for part in
        ["sample · Latency", " ms</span>", "spread −100.0 ms … ", "worse, alert: above the limit"]
    {
        assert!(found[0].contains(part), "{part}: {}", found[0]);
    }
    assert!(found[1].contains("33.00 ns"), "{}", found[1]);
    // The pointer finds the point under it.
    let at = "nearest(data, data.panels[0], all, { x: data.left + 1, y: TOP + 120 })";
    assert!(evaluated(&wide(), &[at])[0].ends_with(",0"));
}

#[test]
fn the_page_searches_and_draws_what_comes_into_sight() {
    let page = |expressions: &[&str]| in_page(&thousand(30, 10), expressions);
    let found = page(&[
        "[ids.tools.hidden, ids.found.textContent, shown(), figures[25].innerHTML].join()",
        "see(25); figures[25].innerHTML.includes('case_25 · Latency')",
        "ids.search.value = 'CASE_2'; happen(ids.search, 'input'); [shown(), ids.found.textContent].join()",
        "see(0); figures[0].innerHTML",
        "happen(figures[0], 'keydown', { key: '+' }); figures[0].innerHTML.includes('of the file')",
        "happen(null, 'keydown', { key: '/' }); document.focused",
    ]);
    let expected = [
        "false,30 of 30 charts,30,",
        "true",
        "11,11 of 30 charts",
        "<svg>of the file</svg>",
        "false",
        "search",
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_page_is_looked_through_with_keys_and_pointer() {
    let found = in_page(
        &wide(),
        &[
            "happen(figures[0], 'keydown', { key: 'ArrowLeft' }); tip().includes('38.95 ns')",
            "happen(figures[0], 'keydown', { key: 'Home' }); happen(figures[0], 'keydown', { key: 'ArrowDown' }); tip().includes('33.00 ns')",
            "happen(null, 'keydown', { key: 'Escape' }); [tip(), ids.reset.disabled].join()",
            "happen(figures[0], 'pointermove', { clientX: 300, clientY: 60 }); tip().includes('sample · Latency')",
            "happen(figures[0], 'pointerdown', { clientX: 200, clientY: 60 }); happen(figures[0], 'pointerup', { clientX: 300, clientY: 60 }); ids.reset.disabled",
            "happen(ids.reset, 'click'); ids.reset.disabled",
        ],
    );
    assert_eq!(found, ["true", "true", ",true", "true", "false", "true"]);
}

fn thousand(panels: usize, reports: usize) -> Chart {
    let panel = |index: usize| {
        let value = |at: usize| 100.0 + (at * 7 % 13) as f64 + index as f64;
        let lines = vec![line("main", (0..reports).map(value))];
        Panel { benchmark: format!("case_{index}"), ..panel("latency", lines) }
    };
    chart("many", reports, Duration::hours(1), (0..panels).map(panel).collect())
}

#[test]
fn a_thousand_series_are_all_there() {
    let chart = thousand(1000, 500);
    let page = html(&chart).expect("a page");
    // Value and spread of 500,000 values at 16 bytes, and the rest of the page.
    assert!(page.len() < 12_000_000, "{} bytes", page.len());
    assert_eq!(page.matches("<figure>").count(), 1000);
    assert!(page.contains("<b>case_999 · Latency</b><br>main: 1.1"), "listed without a script");
    assert!(page.contains("1,000 charts without alerts and changes of level."));
    let last = &evaluated(&chart, &["drawPanel(data, 999, all).length"])[0];
    assert!(last.parse::<usize>().expect("a length") > 10_000, "{last}");
}
