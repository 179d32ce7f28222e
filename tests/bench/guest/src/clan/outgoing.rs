//! The data that one end sends to the peer's memory: by stores, or by DMA requests that the process
//! or the driver posts.

use std::cell::RefCell;

use clap::ValueEnum;
use hamlyn::clan::{Aperture, Descriptor, Dma, Rights, Transfer, Window};

use crate::clan::ends::End;
use crate::engine::lap_words::{DATA, Words};
use crate::engine::result::Outcome;
use crate::engine::wait::PATIENCE;

/// How data is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// The processor, by stores to a window
    Stores,
    /// The card's DMA engine, at the process's request
    Dma,
    /// The card's DMA engine, at the driver's request: the paper's card has no other way
    Driver,
}

impl By {
    /// Returns whether the driver posts the DMA requests.
    pub(crate) fn drivers(self) -> bool {
        self == By::Driver
    }
}

/// Bytes to send, and the means to send them. Their layout is that of the peer's memory.
pub(crate) enum Outgoing<'a> {
    /// To a window over the data. Words go the way the end sends them.
    Stores { end: &'a End, window: Window, bytes: RefCell<Vec<u8>> },
    /// From an aperture, which also holds the words: a store would overtake data that the engine
    /// has not sent yet.
    Dma { dma: Dma, peer: &'a Descriptor, source: Aperture },
}

impl<'a> Outgoing<'a> {
    /// Opens the sending side for `length` bytes of data.
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

    /// Writes bytes that a later [`Outgoing::send`] sends.
    pub(crate) fn put(&self, at: usize, from: &[u8]) -> Outcome {
        match self {
            Self::Stores { bytes, .. } => bytes.borrow_mut()[at..at + from.len()].copy_from_slice(from),
            Self::Dma { source, .. } => source.write(DATA + at, from)?,
        }
        Ok(())
    }

    /// Sends `length` bytes of the data.
    pub(crate) fn send(&self, at: usize, length: usize) -> Outcome {
        match self {
            Self::Stores { window, bytes, .. } => Ok(window.write(at, &bytes.borrow()[at..at + length])?),
            Self::Dma { .. } => self.transfer(DATA + at, length),
        }
    }

    /// Stores to a word of the peer's memory, ordered after all data sent before.
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
            dma.put_chain_timeout(&[transfer], PATIENCE)?;
        }
        Ok(())
    }
}
