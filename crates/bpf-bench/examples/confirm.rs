//! Confirms executed instruction counts with an independent second method.
//!
//! ```text
//! cargo build -p wingbeat-bpf-bench --features testing --example confirm
//! sudo target/debug/examples/confirm OBJECT [PROGRAM]... [--input FILE]... [--map NAME=FILE]... [--cpu N]
//! ```
//!
//! For each program and input, prints a row with the counts of `wingbeat bench`, the counts of an
//! interpreter in user space, and whether both agree: in every instruction, in the return value,
//! and in the packet. Inputs and map contents are those of `wingbeat bench`. The exit code is 1 if
//! anything differs or could not be compared.

use std::{error::Error, path::Path, process::ExitCode};

use wingbeat_bpf_bench::{
    input::{Input, MapSource, PACKETS_MAX, Source, load_all},
    measure::{Confirmation, confirm},
    plan::Plan,
};
use wingbeat_bpf_loader::spec::Spec;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<ExitCode> {
    let (object, plan) = arguments()?;
    let spec = Spec::read(Path::new(&object))?;
    let programs: Vec<String> =
        plan.choose(&spec)?.iter().map(|program| program.name.clone()).collect();
    println!("| program | input | counters | interpreter | returns | |");
    println!("| --- | --- | ---: | ---: | ---: | --- |");
    let mut is_confirmed = true;
    for program in programs {
        let found = confirm(&spec, &program, &plan)?;
        for (input, found) in plan.inputs.iter().zip(found) {
            match found {
                Ok(found) => {
                    is_confirmed &= found.agrees();
                    row(&program, &found);
                }
                Err(error) => {
                    is_confirmed = false;
                    let reason = error.to_string();
                    let reason = reason.lines().next().unwrap_or_default();
                    println!("| {program} | {} | – | – | – | {reason} |", input.name);
                }
            }
        }
    }
    Ok(if is_confirmed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn row(program: &str, found: &Confirmation) {
    let Confirmation { input, counted, interpreted, return_values, .. } = found;
    let [plain, with_counters, in_interpreter] = return_values;
    let mut verdict = Vec::new();
    if let Some(it) = found.difference {
        verdict.push(format!(
            "instruction {}: {} by counters, {} by the interpreter",
            it.index, it.counted, it.interpreted
        ));
    }
    if plain != with_counters || plain != in_interpreter {
        verdict.push(format!(
            "returns {with_counters} with counters, {in_interpreter} in the interpreter"
        ));
    }
    if !found.is_packet_same {
        verdict.push("another packet".to_owned());
    }
    let verdict = if found.agrees() { "agree".to_owned() } else { verdict.join("; ") };
    println!("| {program} | {input} | {counted} | {interpreted} | {plain} | {verdict} |");
}

fn arguments() -> Result<(String, Plan)> {
    let mut plan = Plan { allow_statistics: true, ..Plan::default() };
    let (mut object, mut sources) = (None, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--input" => sources.push(value()?.parse::<Source>()?),
            "--map" => plan.maps.push(value()?.parse::<MapSource>()?),
            "--cpu" => plan.cpu = Some(value()?.parse()?),
            _ if argument.starts_with('-') => {
                return Err(format!("no such flag: {argument}").into());
            }
            _ if object.is_none() => object = Some(argument),
            _ => plan.programs.push(argument),
        }
    }
    plan.inputs = match sources.is_empty() {
        true => vec![Input::default_packet()],
        false => load_all(&sources, PACKETS_MAX)?.inputs,
    };
    Ok((object.ok_or("give an object file")?, plan))
}
