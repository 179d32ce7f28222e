//! Goal 6: what nobody uses costs nothing.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::exchange::words;
use crate::goals::{Goal, Need};
use crate::machines::Machines;
use crate::processes::times;
use crate::progress::Progress;
use crate::site::PROGRAM;

/// Parts of a core, while nothing is sent.
#[derive(Debug, Clone)]
pub struct Idle {
    /// Which processes cards and switch are.
    pub layout: &'static str,
    /// Cards and switch together.
    pub services: f64,
    /// An application that waits for a message.
    pub application: f64,
}

/// Watches cards and switch, while an application in each machine sleeps.
pub fn measure(machines: &Machines, seconds: u64, progress: &Progress) -> anyhow::Result<Idle> {
    let layout = machines.layout().text();
    progress.step(&format!("{layout}: idle for {seconds} s"));
    let services: Vec<_> = machines.processes.iter().filter(|child| child.is_service()).cloned().collect();
    let role = words(&format!("card-doze --seconds {}", seconds + 2));
    let mut sleepers = [machines.near(), machines.far()].map(|site| site.start(PROGRAM, &role));
    // Until they are asleep.
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

/// Goal 6.
pub fn goals(idle: &[Idle]) -> Vec<Goal> {
    let service = |idle: &Idle| {
        let what = format!("idle: {}", idle.layout);
        Goal::own(6, &what, "% of a core", Some(idle.services * 100.0), Need::AtMost(1.0))
    };
    let application = idle.iter().map(|idle| idle.application * 100.0).reduce(f64::max);
    // Going to sleep and waking up once is all that it does.
    let application = Goal::own(6, "a sleeping application", "% of a core", application, Need::AtMost(0.1));
    idle.iter().map(service).chain([application]).collect()
}
