//! Reads of the other host's virtual memory (section 3). The page's translation is cached in the
//! card, was evicted from it, or does not exist. In the last case, the page was never touched or is
//! swapped out.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use hamlyn::dart::{Endpoint, Operation, Queue};
use serde_json::json;

use crate::dart::ends::End;
use crate::engine::lap_words::{ASKED, DATA, PAGE, Words};
use crate::engine::result::{Outcome, Rounds, say};
use crate::engine::wait::PATIENCE;

/// Bit of an entry of a process's page map: the page is in memory.
const PRESENT: u64 = 1 << 63;
/// Bytes of a question.
const QUESTION: usize = 32;
/// Pause between two checks whether the kernel has swapped out all pages.
const MOMENT: Duration = Duration::from_millis(5);

/// How long an answer is polled for between two checks of the connection.
const LOOKING: Duration = Duration::from_millis(20);

/// Which pages are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    /// One page, repeatedly
    Known,
    /// Each in turn, more than the card has translations for; the driver knows them all
    Forgotten,
    /// Each in turn, all of them never touched
    Untouched,
    /// Each in turn, all of them swapped out: requires swap space
    Swapped,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Number of reads, each of a different page
    #[arg(long, default_value_t = 500)]
    count: u64,
    /// Which pages are read
    #[arg(long, value_enum, default_value = "known")]
    pages: Which,
}

impl Options {
    /// Number of pages that are read in turn.
    fn pages(&self) -> u64 {
        if self.pages == Which::Known { 1 } else { self.count }
    }

    fn rounds(&self) -> Rounds {
        // Read every page once before, so that its translation was known.
        let warmup = match self.pages {
            Which::Known => 100,
            Which::Forgotten => self.count,
            Which::Untouched | Which::Swapped => 0,
        };
        Rounds { count: self.count, warmup }
    }

    fn length(&self) -> usize {
        self.pages() as usize * PAGE
    }

    /// Returns the first word of a page: zero if the page was never touched.
    fn word(&self, page: u64) -> u64 {
        if self.pages == Which::Untouched { 0 } else { page + 1 }
    }
}

/// Holds the pages until the peer has read them.
pub(crate) fn hold(options: &Options) -> Outcome {
    let end = End::open(options.length())?;
    if options.pages != Which::Untouched {
        for page in 0..options.pages() {
            end.endpoint.write(DATA + page as usize * PAGE, &options.word(page).to_le_bytes())?;
        }
    }
    if options.pages == Which::Swapped {
        page_out(&end.endpoint, options.length())?;
    }
    end.say(ASKED, 1)?;
    end.wait(ASKED, 0)?;
    say(&json!({ "pages": options.pages() }))
}

/// Waits until no page of the data is in memory. Repeats the request to the kernel, which skips
/// recently used pages.
fn page_out(endpoint: &Endpoint, length: usize) -> Outcome {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        endpoint.page_out()?;
        if present(endpoint.address() + DATA as u64, length)? == 0 {
            return Ok(());
        }
        std::thread::sleep(MOMENT);
    }
    Err(format!("not all of {length} bytes were swapped out within {PATIENCE:?}").into())
}

/// Returns how many pages of these bytes are in memory.
fn present(address: u64, length: usize) -> Outcome<usize> {
    let mut words = vec![0; length / PAGE * 8];
    File::open("/proc/self/pagemap")?.read_exact_at(&mut words, address / PAGE as u64 * 8)?;
    let words = words.chunks_exact(8).filter_map(|word| word.try_into().ok()).map(u64::from_le_bytes);
    Ok(words.filter(|word| word & PRESENT != 0).count())
}

pub(crate) fn read(options: &Options) -> Outcome {
    let end = End::open(PAGE)?;
    end.wait(ASKED, 0)?;
    let mut answers = end.take_queue()?;
    let result = options.rounds().measure(|round| {
        let page = round % options.pages();
        let found = ask(&end, &mut answers, page)?;
        let expected = options.word(page);
        if found == expected {
            Ok(())
        } else {
            Err(format!("page {page} has {found}, not {expected}").into())
        }
    })?;
    end.say(ASKED, 1)?;
    // This question follows the word, because closing the connection would drop pending messages.
    // Its answer shows that the peer has received the word. The same is true if the peer has exited
    // meanwhile.
    if let Err(error) = ask(&end, &mut answers, 0) {
        end.connection.status().broken.ok_or(error)?;
    }
    say(&result)
}

/// Reads the first 8 bytes of a page. Polls for the answer all the time, so that the measurement
/// covers only the other host's part.
fn ask(end: &End, answers: &mut Queue, page: u64) -> Outcome<u64> {
    let question = Operation::read((DATA + page as usize * PAGE) as u64).mask(0b1111_1100);
    end.connection.ask(&question, &Operation::registers(page).tell(), 0, (end.scratch + QUESTION) as u64)?;
    let start = Instant::now();
    while start.elapsed() < PATIENCE && end.connection.status().broken.is_none() {
        if let Some(record) = answers.poll(LOOKING) {
            let right = record.operand() == page;
            return if right {
                Ok(record.word(0).unwrap_or_default())
            } else {
                Err(format!("page {page} was not asked for: {record:?}").into())
            };
        }
    }
    Err(format!("page {page} was not answered within {PATIENCE:?}: {:?}", end.connection.status()).into())
}
