//! The body of a push as JSON: for each series its labels, types, and stacks with their values.

use std::{collections::HashMap, error::Error, fs, io::Read as _, path::Path};

use flate2::read::GzDecoder;
use prost::Message as _;
use pyroscope::encode::r#gen::{
    google::{Profile, Sample},
    push::PushRequest,
};
use serde_json::{Value, json};

pub(crate) fn print(file: &Path) -> Result<(), Box<dyn Error>> {
    let body = fs::read(file)?;
    let request = PushRequest::decode(&body[..])?;
    // Fields unknown to the schema would be lost.
    if request.encode_to_vec() != body {
        return Err("the body has more than the schema".into());
    }
    let mut all = Vec::new();
    for series in request.series {
        let labels: HashMap<_, _> =
            series.labels.into_iter().map(|label| (label.name, label.value)).collect();
        for sample in series.samples {
            let mut bytes = Vec::new();
            GzDecoder::new(&sample.raw_profile[..]).read_to_end(&mut bytes)?;
            let profile = Profile::decode(&bytes[..])?;
            all.push(json!({
                "labels": labels,
                "types": types(&profile),
                "stacks": stacks(&profile),
            }));
        }
    }
    println!("{}", Value::Array(all));
    Ok(())
}

fn text(profile: &Profile, index: i64) -> &str {
    &profile.string_table[index as usize]
}

fn types(profile: &Profile) -> Vec<[&str; 2]> {
    let kinds = profile.sample_type.iter();
    kinds.map(|kind| [text(profile, kind.r#type), text(profile, kind.unit)]).collect()
}

fn stacks(profile: &Profile) -> Vec<Value> {
    let locations: HashMap<_, _> = profile.location.iter().map(|one| (one.id, one)).collect();
    let functions: HashMap<_, _> = profile.function.iter().map(|one| (one.id, one)).collect();
    let stack = |sample: &Sample| {
        let lines = sample.location_id.iter().flat_map(|id| &locations[id].line);
        let names: Vec<_> =
            lines.map(|line| text(profile, functions[&line.function_id].name)).collect();
        json!([names, sample.value])
    };
    profile.sample.iter().map(stack).collect()
}
