//! Unwind tables of an ELF file: any bytes. Results of a table must match those of the image.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wingbeat_unwind::{Image, Rules, Table};

fuzz_target!(|bytes: &[u8]| {
    let Ok(image) = Image::parse(bytes) else { return };
    let mut rules = Rules::new();
    let table = Table::whole(&image, &mut rules);
    if table.crowded() > 0 || rules.refused() > 0 {
        return;
    }
    let middle = image.text().start.midpoint(image.text().end);
    let mut last = None;
    image.rules(middle..image.text().end, |address, rule| {
        assert!(last < Some(address));
        last = Some(address);
        if let Some(id) = table.rule_at(address) {
            assert_eq!(rules.get(id), rule);
        }
    });
});
