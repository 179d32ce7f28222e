//! poll(2) and select(2), with connections among the files that may go over channels.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use hamlyn::{Poller, Polling};
use libc::pollfd;

use crate::bell;
use crate::foreign::{self, Answer, Mask};
use crate::socket::ALWAYS;
use crate::table::{self, Open};

/// Looks at memory between two looks at the kernel's files, while nothing comes.
const LOOKS: u32 = 64;

thread_local! {
    static WAITING: RefCell<Waiting> = RefCell::new(Waiting {
        poller: Poller::new(Polling::default()),
        came: true,
    });
}

struct Waiting {
    poller: Poller,
    came: bool,
}

/// The files of one call.
struct Files<'a> {
    all: &'a mut [pollfd],
    /// Places of those that are more than the kernel's.
    open: Vec<(usize, Open)>,
    /// All, for the kernel: those of the list above have no events of their own.
    kernels: Vec<pollfd>,
    /// Whether there are more files than those of the list.
    has_others: bool,
}

impl Files<'_> {
    /// Sets what holds now. Returns the number of files for which something does.
    fn look(&mut self, mask: Mask) -> Answer {
        if self.has_others {
            self.wait(Some(Duration::ZERO), mask)?;
        } else {
            self.all.iter_mut().for_each(|file| file.revents = 0);
        }
        self.look_at_memory();
        Ok(self.all.iter().filter(|file| file.revents != 0).count())
    }

    fn look_at_memory(&mut self) -> bool {
        let mut ready = false;
        for (place, open) in &self.open {
            let file = &mut self.all[*place];
            file.revents |= match (open.socket(), open.epoll()) {
                (Some(socket), _) => socket.readiness(file.events) & (file.events | ALWAYS),
                (_, Some(epoll)) if epoll.is_ready() => file.events & libc::POLLIN,
                _ => 0,
            };
            ready |= file.revents != 0;
        }
        ready
    }

    /// Waits for the kernel's files. Returns whether there is something.
    fn wait(&mut self, left: Option<Duration>, mask: Mask) -> Answer<bool> {
        let found = foreign::poll(&mut self.kernels, left, mask)?;
        for (file, kernels) in self.all.iter_mut().zip(&self.kernels) {
            file.revents = kernels.revents;
        }
        Ok(found > 0)
    }

    fn spin(&mut self, left: Option<Duration>) -> bool {
        let spins = |(place, open): &(usize, Open)| {
            open.socket().is_some_and(|socket| socket.spins(self.all[*place].events))
        };
        if !self.open.iter().any(spins) {
            return false;
        }
        let end = left.map(|left| Instant::now() + left);
        WAITING.with_borrow_mut(|waiting| {
            let mut looks = 0;
            let found = waiting.poller.poll_before_arming(std::mem::take(&mut waiting.came), || {
                looks += 1;
                self.look_at_memory()
                    || (looks % LOOKS == 0
                        && (end.is_some_and(|end| Instant::now() >= end)
                            || !matches!(self.wait(Some(Duration::ZERO), None), Ok(false))))
            });
            waiting.came = found;
            found
        })
    }

    /// Adds what the kernel has to poll for the others. Returns `true` if there may be something.
    fn arm(&mut self) -> bool {
        self.kernels.truncate(self.all.len());
        bell::hush();
        let mut watched = Vec::new();
        for (place, open) in &self.open {
            let ready = match (open.socket(), open.epoll()) {
                (Some(socket), _) => socket.watch_asleep(self.all[*place].events, &mut watched),
                (_, Some(epoll)) => epoll.arm(),
                _ => false,
            };
            if ready {
                return true;
            }
        }
        self.kernels.extend(watched.into_iter().map(|(fd, events)| pollfd { fd, events, revents: 0 }));
        false
    }
}

/// ppoll(2). `None`: none of the files is more than the kernel's.
pub(crate) fn poll(all: &mut [pollfd], timeout: Option<Duration>, mask: Mask) -> Option<Answer> {
    let of = |(place, file): (usize, &pollfd)| {
        let open = table::get(file.fd)?;
        let is_plain = open.socket().is_some_and(|socket| socket.is_plain());
        (!is_plain).then_some((place, open))
    };
    let open: Vec<_> = all.iter().enumerate().filter_map(of).collect();
    if open.is_empty() {
        return None;
    }
    let mut kernels = all.to_vec();
    for (place, open) in &open {
        if open.socket().is_some() {
            kernels[*place].fd = -1;
        }
    }
    let has_others = kernels.iter().any(|file| file.fd >= 0);
    Some(wait(&mut Files { all, open, kernels, has_others }, timeout, mask))
}

fn wait(files: &mut Files<'_>, timeout: Option<Duration>, mask: Mask) -> Answer {
    let end = timeout.map(|timeout| Instant::now() + timeout);
    loop {
        files.kernels.truncate(files.all.len());
        let found = files.look(mask)?;
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if found > 0 || left.is_some_and(|left| left.is_zero()) {
            return Ok(found);
        }
        if files.spin(left) || files.arm() {
            continue;
        }
        if files.wait(left, mask)? {
            WAITING.with_borrow_mut(|waiting| waiting.came = true);
        }
    }
}
