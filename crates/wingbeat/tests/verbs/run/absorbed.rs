//! Alerts that nobody answers become the usual level, which is told once.

use crate::{
    ran::Ran,
    repository::{Repository, latency},
};

fn notices(ran: &Ran) -> Vec<String> {
    let json = ran.json();
    let all = json["wingbeat"]["notices"].as_array().expect("notices");
    let ours = all.iter().filter(|notice| notice["code"] == "alert-is-usual");
    ours.map(|notice| notice["cause"].as_str().expect("a cause").to_owned()).collect()
}

#[test]
fn it_is_told_once() {
    let repository = Repository::new();
    let history: Vec<f64> = (0..40).map(|at| 100.0 + f64::from(at * 7 % 5)).collect();
    repository.history(&history);
    let hash = repository.git(&["rev-parse", "HEAD"]);
    let run = |at: u32| {
        let line = latency(150.0 + f64::from(at * 3 % 5));
        repository.run(&["--project", "p", "--err", "--format", "json", &line])
    };
    let mut at = 0;
    let first_quiet = loop {
        let ran = run(at);
        if ran.code == Some(0) {
            break ran;
        }
        assert_eq!(notices(&ran), Vec::<String>::new());
        at += 1;
        assert!(at < 12, "it never becomes the usual level");
    };
    assert!(at >= 4, "a level takes some reports: {at}");
    let [notice] = &notices(&first_quiet)[..] else { panic!("{}", first_quiet.stdout) };
    let expected = format!("open for a long time: a latency +49.0 % since {}", &hash[..10]);
    assert!(notice.ends_with(&expected), "{notice}");
    let next = run(at + 1);
    assert_eq!((next.code, notices(&next)), (Some(0), Vec::new()), "{}", next.stderr);
}
