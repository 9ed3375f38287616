//! Parses rules.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;
use wingbeat_push::Pattern;

use super::{Fact, Piece, Rule, Rules, Template};

/// Why a file could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct RulesError {
    /// From 1.
    line: usize,
    what: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    rule: Vec<RuleOfFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleOfFile {
    executable: Option<String>,
    path: Option<String>,
    unit: Option<String>,
    cgroup: Option<String>,
    container_id: Option<String>,
    image: Option<String>,
    namespace: Option<String>,
    pod: Option<String>,
    container: Option<String>,
    drop: Option<Spanned<bool>>,
    service_name: Option<Spanned<String>>,
    #[serde(default)]
    labels: BTreeMap<String, Spanned<String>>,
}

/// Position in the text, and message.
type Wrong = (usize, String);

impl Rules {
    /// Parses TOML with a list of `[[rule]]`.
    ///
    /// # Errors
    ///
    /// The first error, with its line.
    pub fn read(text: &str) -> Result<Self, RulesError> {
        let error = |(at, what): Wrong| {
            let before = text.get(..at).unwrap_or(text);
            RulesError { line: before.matches('\n').count() + 1, what }
        };
        let document: Document = toml::from_str(text).map_err(|found| {
            let at = found.span().map_or(0, |span| span.start);
            // Further lines of the message show the position graphically.
            error((at, found.message().replace('\n', ", ")))
        })?;
        document.rule.into_iter().map(rule).collect::<Result<_, _>>().map(Self).map_err(error)
    }
}

fn rule(of: RuleOfFile) -> Result<Rule, Wrong> {
    let given = [
        (Fact::Executable, of.executable),
        (Fact::Path, of.path),
        (Fact::Unit, of.unit),
        (Fact::Cgroup, of.cgroup),
        (Fact::ContainerId, of.container_id),
        (Fact::Image, of.image),
        (Fact::Namespace, of.namespace),
        (Fact::Pod, of.pod),
        (Fact::Container, of.container),
    ];
    let given = given.into_iter().filter_map(|(fact, text)| Some((fact, Pattern::new(&text?))));
    let patterns: Vec<(Fact, Pattern)> = given.collect();
    let mut labels = Vec::new();
    if let Some(service) = &of.service_name {
        labels.push(("service_name".to_owned(), template(service, &patterns)?));
    }
    for (name, value) in &of.labels {
        check_name(name).map_err(|what| (value.span().start, what))?;
        labels.push((name.clone(), template(value, &patterns)?));
    }
    if let Some(drop) = of.drop.as_ref().filter(|drop| *drop.get_ref() && !labels.is_empty()) {
        let what = "a rule that drops has no service_name and no labels".to_owned();
        return Err((drop.span().start, what));
    }
    Ok(Rule { patterns, is_drop: of.drop.is_some_and(Spanned::into_inner), labels })
}

/// Checks a label name by the rules of Prometheus, which Pyroscope and Parca share.
fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !begins || !name.chars().all(is_plain) || name.starts_with("__") {
        return Err(format!(
            "{name:?} is not a label name: it consists of letters, digits and _, and does not begin with a digit or __"
        ));
    }
    match name {
        "service_name" => {
            Err("service_name stands in the rule itself, not among its labels".to_owned())
        }
        _ => Ok(()),
    }
}

/// `{executable}` is a fact, `{cgroup.1}` the match of the first `*` in that fact's pattern, `{{` a brace.
fn template(of: &Spanned<String>, patterns: &[(Fact, Pattern)]) -> Result<Template, Wrong> {
    let wrong = |what: String| (of.span().start, what);
    let mut pieces = Vec::new();
    let mut rest = of.get_ref().as_str();
    while let Some(at) = rest.find(['{', '}']) {
        let (before, braced) = rest.split_at(at);
        pieces.push(Piece::Text(before.to_owned()));
        if let Some(after) = braced.strip_prefix("{{").or_else(|| braced.strip_prefix("}}")) {
            pieces.push(Piece::Text(braced[..1].to_owned()));
            rest = after;
            continue;
        }
        let inside = braced.strip_prefix('{').and_then(|braced| braced.split_once('}'));
        let Some((name, after)) = inside else {
            let text = of.get_ref();
            return Err(wrong(format!(
                "{text:?} has an unmatched brace; write {{{{ and }}}} for braces themselves"
            )));
        };
        pieces.push(piece(name, patterns).map_err(wrong)?);
        rest = after;
    }
    pieces.push(Piece::Text(rest.to_owned()));
    pieces.retain(|piece| *piece != Piece::Text(String::new()));
    Ok(Template(pieces))
}

fn piece(name: &str, patterns: &[(Fact, Pattern)]) -> Result<Piece, String> {
    let (fact_name, number) = match name.split_once('.') {
        Some((fact, number)) => (fact, Some(number)),
        None => (name, None),
    };
    let Some(fact) = Fact::ALL.into_iter().find(|fact| fact.name() == fact_name) else {
        let known = Fact::ALL.map(Fact::name).join(", ");
        return Err(format!("{{{name}}} is unknown; these are known: {known}"));
    };
    let Some(number) = number else { return Ok(Piece::Fact(fact)) };
    let runs = patterns.iter().find(|(of, _)| *of == fact).map_or(0, |(_, it)| it.runs());
    match number.parse::<usize>() {
        Ok(number) if (1..=runs).contains(&number) => Ok(Piece::Capture(fact, number - 1)),
        _ => Err(format!(
            "{{{name}}} stands for a * of the rule's pattern {fact_name}, which has {runs} *; the first is number 1"
        )),
    }
}
