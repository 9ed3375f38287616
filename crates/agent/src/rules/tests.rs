//! Effects of rules, and errors in them.

use super::*;

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
    let in_pod = "container=app host_name=box pod=cart-7d9c-x2 service_name=shop-cart version=1.2";
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
fn nothing_known_keeps_the_service() {
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
fn what_is_wrong_is_told_with_its_line() {
    let check = |text: &str, expected: &str| {
        let error = Rules::read(text).expect_err("it is wrong").to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    };
    check("[[rule]]\n\nexe = 'x'", "line 3: unknown field `exe`, expected one of `executable`, ");
    check("[[rules]]\n", "line 1: unknown field `rules`, expected `rule`");
    check("[[rule]]\nexecutable = 3", "line 2: invalid type: integer `3`, expected a string");
    check("[[rule]]\nexecutable = 'x", "line 2: ");
    check(
        "\n[[rule]]\nservice_name = '{exe}'",
        "line 3: {exe} is unknown; these are known: executable, path",
    );
    check(
        "[[rule]]\nservice_name = 'a{executable'",
        "line 2: \"a{executable\" has an unmatched brace",
    );
    check("[[rule]]\nservice_name = 'a}'", "line 2: \"a}\" has an unmatched brace");
    check(
        "[[rule]]\ncgroup = '/*'\nservice_name = '{cgroup.2}'",
        "line 3: {cgroup.2} stands for a * of the rule's pattern cgroup, which has 1",
    );
    check("[[rule]]\nservice_name = '{cgroup.1}'", "which has 0");
    check("[[rule]]\nlabels = { 'a-b' = 'x' }", "line 2: \"a-b\" is not a label name");
    check("[[rule]]\n[rule.labels]\n__name__ = 'x'", "line 3: \"__name__\" is not a label name");
    check("[[rule]]\nlabels = { 1a = 'x' }", "is not a label name");
    check("[[rule]]\nlabels = { service_name = 'x' }", "stands in the rule itself");
    check("[[rule]]\ndrop = true\nservice_name = 'x'", "line 2: a rule that drops");
}

#[test]
fn rules_are_counted() {
    assert_eq!(Rules::read("").map(|rules| rules.is_empty()), Ok(true));
    assert_eq!(Rules::read("[[rule]]\n[[rule]]\ndrop = false").map(|rules| rules.len()), Ok(2));
}
