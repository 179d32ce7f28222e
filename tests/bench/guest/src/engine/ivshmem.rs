//! Round trips through QEMU's ivshmem-plain: memory that both machines map, without protection and
//! without messages.

use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::time::Instant;

use hamlyn_bench_guest::pattern::{check_mark, mark};
use hamlyn_sys::{Access, Mapping};
use serde_json::json;

use crate::engine::result::{Outcome, Rounds, say};
use crate::engine::wait::PATIENCE;

/// Offsets of the two ends' words; the data follows the word.
const PING: usize = 0;
const ECHO: usize = 64 << 10;
const DATA: usize = 64;
const LENGTH: usize = 128 << 10;
/// Polls between two reads of the clock.
const LOOKS: u32 = 1 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// Bytes of data in addition to the word that both ends poll
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(..=32768))]
    size: u32,
}

pub(crate) fn echo(options: &Options) -> Outcome {
    let shared = map(0, LENGTH)?;
    for word in [PING, ECHO] {
        shared.store_u32_release(word, 0);
    }
    say(&json!({ "ready": true }))?;
    let mut data = vec![0; options.size as usize];
    say(&options.rounds.answer(|round| {
        wait_for(&shared, PING, round as u32 + 1)?;
        shared.read(PING + DATA, &mut data);
        check_mark(&data, round)?;
        shared.write(ECHO + DATA, &data);
        shared.store_u32_release(ECHO, round as u32 + 1);
        Ok(())
    })?)
}

pub(crate) fn ping(options: &Options) -> Outcome {
    let shared = map(0, LENGTH)?;
    let mut data = vec![0xa5; options.size as usize];
    say(&options.rounds.measure(|round| {
        mark(&mut data, round);
        shared.write(PING + DATA, &data);
        shared.store_u32_release(PING, round as u32 + 1);
        wait_for(&shared, ECHO, round as u32 + 1)?;
        shared.read(ECHO + DATA, &mut data);
        Ok(check_mark(&data, round)?)
    })?)
}

fn wait_for(shared: &Mapping, word: usize, value: u32) -> Outcome {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        for _ in 0..LOOKS {
            if shared.load_u32_acquire(word) == value {
                return Ok(());
            }
            std::hint::spin_loop();
        }
    }
    Err(format!("the word {value} did not come within {PATIENCE:?}").into())
}

/// Maps `length` bytes of the device's memory (BAR 2) from offset `at` on.
pub(crate) fn map(at: usize, length: usize) -> Outcome<Mapping> {
    let device = find()?;
    fs::write(device.join("enable"), "1")?;
    let memory = OpenOptions::new().read(true).write(true).open(device.join("resource2"))?;
    Ok(Mapping::of_file(memory, at as u64, length, Access::ReadWrite)?)
}

fn find() -> Outcome<PathBuf> {
    for entry in fs::read_dir("/sys/bus/pci/devices")? {
        let device = entry?.path();
        let is =
            |file: &str, id: &str| fs::read_to_string(device.join(file)).is_ok_and(|text| text.trim() == id);
        if is("vendor", "0x1af4") && is("device", "0x1110") {
            return Ok(device);
        }
    }
    Err("this machine has no ivshmem device".into())
}
