//! Plans of measurements on packets of the tests' own.

use wingbeat_bench::{
    input::{Input, Link},
    plan::Plan,
};

pub(crate) fn plan(packets: &[Vec<u8>]) -> Plan {
    let input = |(number, data): (usize, &Vec<u8>)| Input {
        name: format!("packet-{number}"),
        data: data.clone(),
        link: Link::Ethernet,
    };
    let inputs = packets.iter().enumerate().map(input).collect();
    Plan { inputs, allow_statistics: true, ..Plan::default() }
}
