//! Call graph of a generated program.

use proptest::sample::Index;

use super::{Kind, Program, Statement};

/// The verifier rejects functions that are never called.
pub(super) fn reached(program: &Program) -> Vec<bool> {
    let mut reached = vec![false; program.functions.len()];
    reached[0] = true;
    for number in 0..program.functions.len() {
        if reached[number] {
            mark(program, number, &program.functions[number].body, &mut reached);
        }
    }
    reached
}

fn mark(program: &Program, number: usize, body: &[Statement], reached: &mut [bool]) {
    for statement in body {
        match statement {
            Statement::If { then, otherwise, .. } => {
                mark(program, number, then, reached);
                mark(program, number, otherwise, reached);
            }
            Statement::Repeat { body, .. } => mark(program, number, body, reached),
            Statement::Call { function, .. } => {
                let callee = callee(program, number, function, Kind::Called);
                callee.into_iter().for_each(|it| reached[it] = true);
            }
            Statement::Loop { function, .. } => {
                let callee = callee(program, number, function, Kind::Callback);
                callee.into_iter().for_each(|it| reached[it] = true);
            }
            _ => {}
        }
    }
}

/// A later function of a kind. Callbacks call nothing, because nested loops take the verifier long.
pub(super) fn callee(program: &Program, number: usize, index: &Index, kind: Kind) -> Option<usize> {
    if program.functions[number].kind == Kind::Callback {
        return None;
    }
    let later = number + 1..program.functions.len();
    let candidates: Vec<usize> = later.filter(|&it| program.functions[it].kind == kind).collect();
    (!candidates.is_empty()).then(|| candidates[index.index(candidates.len())])
}

/// Whether these statements may clobber registers.
pub(super) fn calls(statements: &[Statement]) -> bool {
    statements.iter().any(|statement| match statement {
        Statement::Call { .. } | Statement::Loop { .. } | Statement::Escape { .. } => true,
        Statement::If { then, otherwise, .. } => calls(then) || calls(otherwise),
        Statement::Repeat { body, .. } => calls(body),
        _ => false,
    })
}
