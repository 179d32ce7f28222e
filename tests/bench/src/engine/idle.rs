//! Unused objects cost nothing.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::engine::exchange::words;
use crate::engine::machines::Machines;
use crate::engine::processes::times;
use crate::engine::progress::Progress;
use crate::engine::site::PROGRAM;

/// Used share of a core while nothing is sent.
#[derive(Debug, Clone)]
pub struct Idle {
    /// Which processes the cards and the switch run in.
    pub layout: &'static str,
    /// Cards and switch together.
    pub services: f64,
    /// An application that waits for a message.
    pub application: f64,
}

/// Measures cards and switch while an application in each machine sleeps in a role that takes
/// `--seconds`.
pub fn measure(machines: &Machines, role: &str, seconds: u64, progress: &Progress) -> anyhow::Result<Idle> {
    let layout = machines.layout().text();
    progress.step(&format!("{layout}: idle for {seconds} s"));
    let services: Vec<_> = machines.processes.iter().filter(|child| child.is_service()).cloned().collect();
    let role = words(&format!("{role} --seconds {}", seconds + 2));
    let mut sleepers = [machines.near(), machines.far()].map(|site| site.start(PROGRAM, &role));
    // Wait until they are asleep.
    sleep(Duration::from_secs(1));
    let sum = || times(&services).values().sum::<u64>();
    let (start, before) = (Instant::now(), sum());
    sleep(Duration::from_secs(seconds));
    let services = (sum() - before) as f64 / start.elapsed().as_nanos() as f64;
    let mut application: f64 = 0.0;
    for sleeper in &mut sleepers {
        let sleeper = sleeper.as_mut().map_err(|error| anyhow::anyhow!("{error:#}"))?;
        let slept = sleeper.finish()?;
        let (cpu, wall) = (slept["cpu_ns"].as_f64(), slept["ns"].as_f64());
        application = application.max(cpu.unwrap_or(f64::NAN) / wall.unwrap_or(f64::NAN));
    }
    Ok(Idle { layout, services, application })
}
