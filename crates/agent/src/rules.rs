//! User-defined rules: set labels of samples, or drop them. Only the first matching rule applies.

use std::collections::BTreeMap;

use anyhow::anyhow;
use serde::Deserialize;
use toml::Spanned;

use crate::{
    facts::{Fact, Facts, Labels, label_value},
    pattern::Pattern,
};

/// All rules, in order.
#[derive(Debug, Clone, Default)]
pub struct Rules(Vec<Rule>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    rule: Vec<RuleEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleEntry {
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
type ErrorAt = (usize, String);

#[derive(Debug, Clone)]
struct Rule {
    /// All of them must match.
    patterns: Vec<(Fact, Pattern)>,
    is_drop: bool,
    labels: Vec<(String, Template)>,
}

/// Text with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Fact(Fact),
    /// The text matched by a `*` of the fact's pattern, from 0.
    Capture(Fact, usize),
}

impl Rules {
    /// Parses TOML with a list of `[[rule]]`.
    ///
    /// # Errors
    ///
    /// The first error, with its line.
    pub fn read(text: &str) -> anyhow::Result<Self> {
        let error = |(at, message): ErrorAt| {
            let before = text.get(..at).unwrap_or(text);
            anyhow!("line {}: {message}", before.matches('\n').count() + 1)
        };
        let document: Document = toml::from_str(text).map_err(|found| {
            let at = found.span().map_or(0, |span| span.start);
            // Further lines of the message show the position graphically.
            error((at, found.message().replace('\n', ", ")))
        })?;
        document.rule.into_iter().map(rule).collect::<Result<_, _>>().map(Self).map_err(error)
    }

    /// Applies the first matching rule to the labels; `false` if the process is dropped.
    pub(crate) fn apply(&self, facts: &Facts<'_>, labels: &mut Labels) -> bool {
        for rule in &self.0 {
            let Some(captures) = rule.matches(facts) else { continue };
            if rule.is_drop {
                return false;
            }
            for (name, template) in &rule.labels {
                let value = template.fill(facts, &captures);
                match value.is_empty() {
                    // A missing fact must not remove the service's name.
                    true if name == "service_name" => {}
                    true => drop(labels.remove(name)),
                    false => drop(labels.insert(name.clone(), value)),
                }
            }
            return true;
        }
        true
    }

    /// Number of rules.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

type Captures<'a> = BTreeMap<Fact, Vec<&'a str>>;

impl Rule {
    fn matches<'a>(&self, facts: &Facts<'a>) -> Option<Captures<'a>> {
        let captures =
            |(fact, pattern): &(Fact, Pattern)| Some((*fact, pattern.captures(facts.get(*fact)?)?));
        self.patterns.iter().map(captures).collect()
    }
}

impl Template {
    fn fill(&self, facts: &Facts<'_>, captures: &Captures<'_>) -> String {
        let text = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Fact(fact) => facts.get(*fact).unwrap_or("").to_owned(),
            Piece::Capture(fact, number) => {
                let captured = captures.get(fact).and_then(|all| all.get(*number));
                captured.map_or_else(String::new, |text| (*text).to_owned())
            }
        };
        label_value(&self.0.iter().map(text).collect::<String>())
    }
}

fn rule(of: RuleEntry) -> Result<Rule, ErrorAt> {
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
        check_name(name).map_err(|message| (value.span().start, message))?;
        labels.push((name.clone(), template(value, &patterns)?));
    }
    if let Some(drop) = of.drop.as_ref().filter(|drop| *drop.get_ref() && !labels.is_empty()) {
        let message = "a rule with drop = true must not have service_name or labels".to_owned();
        return Err((drop.span().start, message));
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
            Err("service_name belongs in the rule itself, not among its labels".to_owned())
        }
        _ => Ok(()),
    }
}

/// `{executable}` is a fact, `{cgroup.1}` the match of the first `*` in that fact's pattern, `{{` a brace.
fn template(of: &Spanned<String>, patterns: &[(Fact, Pattern)]) -> Result<Template, ErrorAt> {
    let wrong = |message: String| (of.span().start, message);
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
        return Err(format!("{{{name}}} is unknown; the names are {known}"));
    };
    let Some(number) = number else { return Ok(Piece::Fact(fact)) };
    let runs = patterns.iter().find(|(of, _)| *of == fact).map_or(0, |(_, it)| it.runs());
    match number.parse::<usize>() {
        Ok(number) if (1..=runs).contains(&number) => Ok(Piece::Capture(fact, number - 1)),
        _ => Err(format!(
            "{{{name}}} refers to a * of the rule's pattern {fact_name}, which has {runs} *; the first is number 1"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{origin::Origin, pods::PodContainer};

    fn origin(cgroup: &str) -> Origin {
        Origin::parse(&format!("0::{cgroup}"))
    }

    /// The labels of a process after rules, as `name=value`, or `dropped`.
    fn labels(rules: &str, cgroup: &str, path: &str) -> String {
        let rules = Rules::read(rules).expect("rules");
        let pod = PodContainer {
            namespace: "shop".to_owned(),
            pod: "cart-7d9c-x2".to_owned(),
            service: "cart".to_owned(),
            container: Some("app".to_owned()),
            image: Some("registry/shop/cart:1.2".to_owned()),
        };
        let origin = origin(cgroup);
        let executable = path.rsplit('/').next().unwrap_or(path);
        let path = Some(path).filter(|path| path.starts_with('/'));
        let is_in_pod = cgroup.contains("pods");
        let facts = Facts { executable, path, origin: &origin, pod: is_in_pod.then_some(&pod) };
        let mut labels = Labels::from(
            [("service_name", executable), ("host_name", "box")]
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        if !rules.apply(&facts, &mut labels) {
            return "dropped".to_owned();
        }
        labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_first_rule_that_fits_counts() {
        let rules = r#"
            [[rule]]
            executable = "python3*"
            path = "/opt/*/venv/**"
            service_name = "{path.1}"
            labels = { runtime = "python", version = "{executable.1}" }

            [[rule]]
            unit = "backup-*.service"
            drop = true

            [[rule]]
            cgroup = "/apps/*/*/**"
            service_name = "{cgroup.2}"
            labels = { tenant = "{cgroup.1}", host_name = "" }

            [[rule]]
            namespace = "shop"
            image = "**/shop/*:*"
            service_name = "{namespace}-{image.2}"
            labels = { version = "{image.3}", pod = "{pod}", container = "{container}" }

            [[rule]]
            executable = "top"

            [[rule]]
            service_name = "rest {{x}} {unit}"
            labels = { unit = "{unit}" }
        "#;
        let check = |cgroup: &str, path: &str, expected: &str| {
            assert_eq!(labels(rules, cgroup, path), expected, "{cgroup} {path}");
        };
        check(
            "/",
            "/opt/jobs/venv/bin/python3.13",
            "host_name=box runtime=python service_name=jobs version=.13",
        );
        check("/system.slice/backup-db.service", "/usr/bin/tar", "dropped");
        check("/apps/acme/web/worker/1", "/usr/bin/ruby", "service_name=web tenant=acme");
        let in_pod =
            "container=app host_name=box pod=cart-7d9c-x2 service_name=shop-cart version=1.2";
        check("/kubepods/x", "/usr/bin/node", in_pod);
        check("/", "/usr/bin/top", "host_name=box service_name=top");
        check("/", "kworker", "host_name=box service_name=rest {x} ");
        check(
            "/system.slice/a.service",
            "/bin/x",
            "host_name=box service_name=rest {x} a.service unit=a.service",
        );
    }

    #[test]
    fn unknown_facts_keep_the_service() {
        let rules = "[[rule]]\nservice_name = '{pod}'";
        assert_eq!(labels(rules, "/", "/bin/x"), "host_name=box service_name=x");
        assert_eq!(labels("", "/", "/bin/x"), "host_name=box service_name=x");
    }

    #[test]
    fn values_are_plain_and_short() {
        let rules = "[[rule]]\nservice_name = '{executable}'";
        let found = labels(rules, "/", &format!("/bin/a\n{}", "b".repeat(500)));
        assert_eq!(found, format!("host_name=box service_name=a {}", "b".repeat(198)));
    }

    #[test]
    fn errors_have_a_line() {
        let check = |text: &str, expected: &str| {
            let error = Rules::read(text).expect_err("it is wrong").to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        };
        check(
            "[[rule]]\n\nexe = 'x'",
            "line 3: unknown field `exe`, expected one of `executable`, ",
        );
        check("[[rules]]\n", "line 1: unknown field `rules`, expected `rule`");
        check("[[rule]]\nexecutable = 3", "line 2: invalid type: integer `3`, expected a string");
        check("[[rule]]\nexecutable = 'x", "line 2: ");
        check(
            "\n[[rule]]\nservice_name = '{exe}'",
            "line 3: {exe} is unknown; the names are executable, path",
        );
        check(
            "[[rule]]\nservice_name = 'a{executable'",
            "line 2: \"a{executable\" has an unmatched brace",
        );
        check("[[rule]]\nservice_name = 'a}'", "line 2: \"a}\" has an unmatched brace");
        check(
            "[[rule]]\ncgroup = '/*'\nservice_name = '{cgroup.2}'",
            "line 3: {cgroup.2} refers to a * of the rule's pattern cgroup, which has 1",
        );
        check("[[rule]]\nservice_name = '{cgroup.1}'", "which has 0");
        check("[[rule]]\nlabels = { 'a-b' = 'x' }", "line 2: \"a-b\" is not a label name");
        check(
            "[[rule]]\n[rule.labels]\n__name__ = 'x'",
            "line 3: \"__name__\" is not a label name",
        );
        check("[[rule]]\nlabels = { 1a = 'x' }", "is not a label name");
        check("[[rule]]\nlabels = { service_name = 'x' }", "belongs in the rule itself");
        check("[[rule]]\ndrop = true\nservice_name = 'x'", "line 2: a rule with drop = true");
    }

    #[test]
    fn rules_are_counted() {
        assert!(Rules::read("").expect("rules").is_empty());
        assert_eq!(Rules::read("[[rule]]\n[[rule]]\ndrop = false").expect("rules").len(), 2);
    }
}
