//! The datasheet's table of counters is the card's.

use hamlyn_abi::hamlyn::statistics::Statistic;

#[test]
fn every_counter_is_in_the_datasheet_under_its_number() {
    let datasheet = include_str!("../../docs/hamlyn.md");
    let (_, table) = datasheet.split_once("| number | name | what |").expect("the table of counters");
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
