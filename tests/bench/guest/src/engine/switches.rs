//! Switches between two processes on one processor, which wake each other by kernel semaphores. A
//! message to a sleeping process is compared with this (section 4.2).

use std::env::current_exe;
use std::io::{stdin, stdout};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};

use crate::engine::hand_over::stay_on;
use crate::engine::result::{Outcome, Rounds, say};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
}

/// The other process, which ends with this process's measurement.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn semaphore() -> Outcome<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::SEMAPHORE | EventfdFlags::CLOEXEC)?)
}

fn signal(semaphore: impl AsFd) -> Outcome {
    write(semaphore, &1_u64.to_ne_bytes())?;
    Ok(())
}

fn await_signal(semaphore: impl AsFd) -> Outcome {
    read(semaphore, &mut [0; 8])?;
    Ok(())
}

/// Measures round trips of two switches each.
pub(crate) fn run(options: &Options) -> Outcome {
    let rounds = options.rounds;
    stay_on(0)?;
    let (there, here) = (semaphore()?, semaphore()?);
    let mut other = Command::new(current_exe()?);
    other.args(["switch-back", "--count", &rounds.count.to_string(), "--warmup", &rounds.warmup.to_string()]);
    let _other = Other(other.stdin(there.try_clone()?).stdout(here.try_clone()?).spawn()?);
    say(&rounds.measure(|_| {
        signal(&there)?;
        await_signal(&here)
    })?)
}

/// Switches back. The semaphores are standard input and output.
pub(crate) fn back(options: &Options) -> Outcome {
    options.rounds.answer(|_| {
        await_signal(stdin())?;
        signal(stdout())
    })?;
    Ok(())
}
