//! What one sends to the other's memory: by stores, or by DMA requests that it or the driver puts.

use std::cell::RefCell;

use clap::ValueEnum;
use hamlyn::clan::{Aperture, Descriptor, Dma, Rights, Transfer, Window};

use crate::clan::ends::End;
use crate::engine::lap_words::{DATA, Words};
use crate::engine::result::Outcome;
use crate::engine::wait::PATIENCE;

/// What sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// The processor, by stores to a window
    Stores,
    /// The card's engine, as the process asks it
    Dma,
    /// The same, as the driver asks it: the paper's card has no other way
    Driver,
}

impl By {
    /// Whether DMA requests are the driver's.
    pub(crate) fn drivers(self) -> bool {
        self == By::Driver
    }
}

/// Bytes that are to be sent, and what sends them. They lie as in the other's memory.
pub(crate) enum Outgoing<'a> {
    /// To a window over the data; the words go as the end says them.
    Stores { end: &'a End, window: Window, bytes: RefCell<Vec<u8>> },
    /// From an aperture, the words too: a store would overtake what the engine has not sent.
    Dma { dma: Dma, peer: &'a Descriptor, source: Aperture },
}

impl<'a> Outgoing<'a> {
    /// With so many bytes of data.
    pub(crate) fn open(end: &'a End, by: By, length: usize) -> Outcome<Self> {
        Ok(match by {
            By::Stores => Self::Stores {
                end,
                window: end.endpoint.map(&end.peer, DATA as u64, length)?,
                bytes: RefCell::new(vec![0; length]),
            },
            By::Dma | By::Driver => Self::Dma {
                dma: end.endpoint.dma(),
                peer: &end.peer,
                source: end.card.aperture(DATA + length, Rights::None)?,
            },
        })
    }

    /// Writes bytes that are to be sent.
    pub(crate) fn put(&self, at: usize, from: &[u8]) -> Outcome {
        match self {
            Self::Stores { bytes, .. } => bytes.borrow_mut()[at..at + from.len()].copy_from_slice(from),
            Self::Dma { source, .. } => source.write(DATA + at, from)?,
        }
        Ok(())
    }

    /// Sends bytes of the data.
    pub(crate) fn send(&self, at: usize, length: usize) -> Outcome {
        match self {
            Self::Stores { window, bytes, .. } => Ok(window.write(at, &bytes.borrow()[at..at + length])?),
            Self::Dma { .. } => self.transfer(DATA + at, length),
        }
    }

    /// Stores to a word of the other's, behind what was sent before.
    pub(crate) fn say(&self, word: usize, value: u32) -> Outcome {
        match self {
            Self::Stores { end, .. } => end.say(word, value),
            Self::Dma { source, .. } => {
                source.store_u32(word, value)?;
                self.transfer(word, 4)
            }
        }
    }

    fn transfer(&self, at: usize, length: usize) -> Outcome {
        if let Self::Dma { dma, peer, source } = self {
            let transfer = Transfer::write(source, at, peer, at as u64, length)?;
            dma.put_wait(&[transfer], Some(PATIENCE))?;
        }
        Ok(())
    }
}
