//! Checks that the datasheet's tables and sums match the card.

use hamlyn_abi::hamlyn::sram::*;
use hamlyn_abi::hamlyn::statistics::Statistic;

const DATASHEET: &str = include_str!("../../docs/hamlyn.md");

#[test]
fn every_counter_has_its_number_in_the_datasheet() {
    let (_, table) = DATASHEET.split_once("| number | name | what |").expect("the table of counters");
    let rows: Vec<Vec<&str>> =
        table.lines().skip(2).map(|row| row.split('|').map(str::trim).collect()).collect();
    let written: Vec<(String, String)> =
        rows.iter().map(|row| (row[1].to_owned(), row[2].trim_matches('`').to_owned())).collect();
    let counters: Vec<(String, String)> = Statistic::ALL
        .iter()
        .map(|counter| ((*counter as u32).to_string(), counter.name().to_owned()))
        .collect();
    assert_eq!(written, counters);
}

/// Returns the cells of a row of the SRAM account.
fn account(object: &str) -> Vec<&'static str> {
    let (_, section) = DATASHEET.split_once("## SRAM\n").expect("the section");
    let row = section.lines().find(|line| line.starts_with(&format!("| {object} |"))).expect(object);
    row.split('|').map(str::trim).collect()
}

#[test]
fn account_of_the_memory_adds_up() {
    for (object, bytes) in
        [("slot", HAMLYN_SRAM_SLOT), ("queue", HAMLYN_SRAM_QUEUE), ("terminus", HAMLYN_SRAM_TERMINUS)]
    {
        let row = account(object);
        assert_eq!(row[2], format!("{bytes} bytes"), "{object}");
        let (sum, fields) = row[3].split_once(": ").expect("a sum and its fields");
        let sum: u32 = sum.parse().unwrap();
        let width = |field: &str| field.rsplit(' ').next().unwrap().parse::<u32>().unwrap();
        assert_eq!(fields.split(", ").map(width).sum::<u32>(), sum, "{object}: {fields}");
        assert!(sum <= bytes && bytes % HAMLYN_SRAM_UNIT == 0, "{object}");
    }
}

#[test]
fn default_memory_matches_the_datasheet() {
    let (size, termini, queues) = (512 << 10, 64, 256);
    let directory =
        |slots: u32| ((termini + queues + slots) * HAMLYN_SRAM_NUMBER).next_multiple_of(HAMLYN_SRAM_UNIT);
    let fits = |slots: &u32| directory(*slots) + slots * HAMLYN_SRAM_SLOT <= size;
    let slots = (0..size / HAMLYN_SRAM_SLOT).rev().find(fits).unwrap();
    let with_comma = |number: u32| format!("{},{:03}", number / 1000, number % 1000);
    let (slots, taken, left) =
        (with_comma(slots), with_comma(directory(slots)), with_comma(size - directory(slots)));
    let text = DATASHEET.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = format!(
        "With the defaults ({termini} termini, {queues} queues) there are {slots} slots, the directory takes {taken} bytes, \
         and {left} bytes are left for objects."
    );
    assert!(text.contains(&said), "{said}");
}
