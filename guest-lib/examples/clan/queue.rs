//! A producer and a consumer on different hosts, connected by a distributed queue (section 4.2).
//! Each item carries its number in its bytes and in its metadata; every tenth item has several
//! parts. The consumer checks that all items arrive complete and in order.

use std::time::Instant;

use clap::{Args, Subcommand};
use hamlyn::clan::programs::queue::{Consumer, DmaProducer, Producer};
use hamlyn::clan::{Card, Rights};
use serde_json::json;

use crate::common::{Outcome, fill_pattern, find_difference, print};
use crate::meet;

/// Bytes of each end's memory, and of an element.
const LENGTH: usize = 16_384;
const ELEMENT: usize = 64;
/// Length of the longest item: several elements.
const LONGEST: usize = 150;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Number of items
    #[arg(long, default_value_t = 2000, global = true)]
    count: u64,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum What {
    /// Takes items and checks that each is complete
    Consume,
    /// Produces items
    Produce {
        /// Lets the card fetch them from memory
        #[arg(long)]
        dma: bool,
    },
}

pub(crate) fn run(card: &Card, meet: &meet::Options, options: &Options) -> Outcome {
    match options.what {
        What::Consume => consume(card, meet, options.count),
        What::Produce { dma } => produce(card, meet, options.count, dma),
    }
}

fn consume(card: &Card, meet: &meet::Options, count: u64) -> Outcome {
    let listener = meet.listen(card)?;
    let end = meet.accept(card, &listener, LENGTH)?;
    let mut consumer = Consumer::new(&end, ELEMENT)?;
    let mut bytes = Vec::new();
    for item in 0..count {
        bytes.clear();
        let metadata = consumer.get_message(&mut bytes, LONGEST)?;
        let difference = find_difference(item, 0, &bytes);
        if metadata != item || difference.is_some() || bytes.is_empty() {
            let length = bytes.len();
            return Err(
                format!("item {item}: metadata {metadata}, {length} bytes, {difference:?} differs").into()
            );
        }
    }
    print(&json!({ "taken": count, "in_order": true }))?;
    end.connection().wait_end_timeout(meet.patience())?;
    Ok(())
}

fn produce(card: &Card, meet: &meet::Options, count: u64, dma: bool) -> Outcome {
    let end = meet.connect(card, LENGTH)?;
    let begun = Instant::now();
    if dma {
        let mut producer = DmaProducer::new(card, &end, ELEMENT)?;
        // Each item has its own bytes, which must stay unchanged until the card has fetched them.
        let items = card.aperture((count as usize).max(1) * ELEMENT, Rights::None)?;
        let mut last = None;
        for item in 0..count {
            let (mut bytes, at) = ([0; ELEMENT], item as usize * ELEMENT);
            fill_pattern(item, 0, &mut bytes);
            items.write(at, &bytes)?;
            last = Some(producer.put(&items, at, ELEMENT, item)?);
        }
        last.map_or(Ok(()), |last| producer.dma().wait_timeout(last, meet.patience()))?;
    } else {
        let mut producer = Producer::new(&end, ELEMENT)?;
        for item in 0..count {
            let mut bytes = [0; LONGEST];
            fill_pattern(item, 0, &mut bytes);
            if item % 10 == 9 {
                producer.put_parts(&[&bytes[..3], &bytes[3..]], item)?;
            } else {
                producer.put(&bytes[..1 + (item as usize % ELEMENT)], item)?;
            }
        }
    }
    let each = begun.elapsed().as_nanos() as u64 / count.max(1);
    print(&json!({ "produced": count, "dma": dma, "ns_for_each": each }))?;
    end.close()?;
    Ok(())
}
