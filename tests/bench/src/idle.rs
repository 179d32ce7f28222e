//! Goal 6: what nobody uses costs nothing.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::exchange::words;
use crate::goals::{Goal, Need};
use crate::machines::Machines;
use crate::processes::{Child, children, processor_time};
use crate::progress::Progress;

/// Parts of a core, while nothing is sent.
#[derive(Debug, Clone, Copy)]
pub struct Idle {
    /// Cards and switch together.
    pub services: f64,
    /// An application that waits for a message.
    pub application: f64,
}

/// Watches cards and switch, while an application in each machine sleeps.
pub fn measure(machines: &Machines, seconds: u64, progress: &Progress) -> anyhow::Result<Idle> {
    progress.step(&format!("idle for {seconds} s"));
    let is_service = |child: &Child| child.name == "switch" || child.name.starts_with("card");
    let services: Vec<Child> = children()?.into_iter().filter(is_service).collect();
    let role = words(&format!("card-doze --seconds {}", seconds + 2));
    let mut sleepers = [machines.near(), machines.far()].map(|site| site.start(&role));
    // Until they are asleep.
    sleep(Duration::from_secs(1));
    let sum = || services.iter().map(|child| processor_time(child.pid)).sum::<anyhow::Result<u64>>();
    let (start, before) = (Instant::now(), sum()?);
    sleep(Duration::from_secs(seconds));
    let services = (sum()? - before) as f64 / start.elapsed().as_nanos() as f64;
    let mut application: f64 = 0.0;
    for sleeper in &mut sleepers {
        let sleeper = sleeper.as_mut().map_err(|error| anyhow::anyhow!("{error:#}"))?;
        let slept = sleeper.finish()?;
        let (cpu, wall) = (slept["cpu_ns"].as_f64(), slept["ns"].as_f64());
        application = application.max(cpu.unwrap_or(f64::NAN) / wall.unwrap_or(f64::NAN));
    }
    Ok(Idle { services, application })
}

/// Goal 6.
pub fn goals(idle: Option<Idle>) -> Vec<Goal> {
    let percent = |part: f64| part * 100.0;
    let services = idle.map(|idle| percent(idle.services));
    let application = idle.map(|idle| percent(idle.application));
    vec![
        Goal::own(6, "idle: cards and switch together", "% of a core", services, Need::AtMost(1.0)),
        // Going to sleep and waking up once is all that it does.
        Goal::own(6, "a sleeping application", "% of a core", application, Need::AtMost(0.1)),
    ]
}
