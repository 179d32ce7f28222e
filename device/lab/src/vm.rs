//! One virtual machine of a lab.

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use hamlyn_agent::protocol::{Program, Verb, What};
use serde_json::Value;

use super::agent::Agent;
use super::build_id;
use super::cloud_hypervisor::order;
use super::door::Speaks;
use super::evidence::{self, Evidence};
use super::machine::Machine;
use super::monitor;
use super::processes::{Process, Words};
use super::run::Run;
use super::vmm::Vmm;
use super::{cloud_hypervisor, hybrid_vsock, qemu};

/// Default user of programs in the guest, for tests and the demo.
const USER: u32 = 1001;

/// The card's module in the guest's kernel.
pub const MODULE: &str = "hamlyn";
/// Shell line for root. It makes a machine's driver probe other hosts once a minute instead of once
/// a second. So interrupts of these probes are not counted.
pub const SELDOM_PROBES: &str = "echo 600000 >/sys/module/hamlyn/parameters/peer_timeout";
/// Shell line for root. It gives a machine swap space in compressed memory, without kernel
/// messages.
pub const SWAP: &str = "echo 4 >/proc/sys/vm/drop_caches; while read -r module; do insmod /lib/swap/$module.ko; done </lib/swap/order && \
    echo 64M >/sys/block/zram0/disksize && mkswap /dev/zram0 && swapon /dev/zram0";

/// Text that the kernel writes before the list of blocked tasks.
const BLOCKED: &str = "Show Blocked State";
/// Largest number of lines shown of that list.
const BLOCKED_LINES: usize = 200;

/// A virtual machine, running or not. Its lab starts it. It is killed when it is dropped.
#[derive(Debug)]
pub struct Vm {
    machine: Machine,
    program: std::path::PathBuf,
    run: std::path::PathBuf,
    patience: Duration,
    evidence: Evidence,
    running: Mutex<Option<Running>>,
    speaks: Speaks,
}

#[derive(Debug)]
struct Running {
    vmm: Process,
    agent: Arc<Agent>,
}

impl Running {
    fn goes_on(&mut self) -> bool {
        self.vmm.ended().is_none()
    }
}

impl Vm {
    pub(super) fn new(
        machine: Machine,
        program: &Path,
        run: &Path,
        card_log: &Path,
        patience: Duration,
    ) -> Vm {
        let evidence = Evidence::new([
            (format!("{}'s console", machine.name), machine.console_log.clone()),
            (format!("{}'s {}'s output", machine.name, machine.vmm), output(&machine, run)),
            (format!("{}'s card's log", machine.name), card_log.to_owned()),
        ]);
        Vm {
            machine,
            program: program.into(),
            run: run.into(),
            patience,
            evidence,
            running: Mutex::new(None),
            speaks: Arc::new(Mutex::new(Weak::new())),
        }
    }

    /// Returns its name, such as `vm0`.
    pub fn name(&self) -> &str {
        &self.machine.name
    }

    /// Starts it, and waits until its agent is ready.
    pub fn start(&self) -> anyhow::Result<()> {
        self.launch()?;
        self.wait_until_ready()
    }

    /// Starts the VMM without waiting for the guest.
    pub(super) fn launch(&self) -> anyhow::Result<()> {
        if self.is_running() {
            bail!("{} is already running", self.name());
        }
        for socket in [&self.machine.console, &self.machine.agent, &self.machine.monitor] {
            // Removes sockets of an earlier, killed VMM. Fails if there are none.
            let _ = std::fs::remove_file(socket);
        }
        let arguments = match self.machine.vmm {
            Vmm::Qemu => qemu::arguments(&self.machine),
            Vmm::CloudHypervisor => cloud_hypervisor::arguments(&self.machine),
        };
        let mut vmm = Process::start(
            self.name(),
            &self.program,
            arguments,
            Words::Two(&self.machine.console_log, &output(&self.machine, &self.run)),
            &self.run,
            self.machine.core,
        )?;
        let stream = match self.machine.vmm {
            Vmm::Qemu => connect(&mut vmm, &self.machine.agent, self.patience),
            Vmm::CloudHypervisor => hybrid_vsock::stream(&self.machine.agent, vmm.watch())
                .context("cannot make a stream to the agent"),
        };
        let agent = stream.and_then(|stream| Agent::new(self.name(), stream, vmm.fate()));
        let agent = Arc::new(self.evidence.with(agent)?);
        *self.speaks.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&agent);
        *self.lock() = Some(Running { vmm, agent });
        Ok(())
    }

    /// Waits until the agent is ready for the first time. From then on a machine that shares its
    /// core with its card runs at lower priority than the card. Earlier it would hardly boot on a
    /// busy host, and it could not move to another core.
    pub(super) fn wait_until_ready(&self) -> anyhow::Result<()> {
        let ready = self.agent()?.wait_for_boot(0, self.patience).with_context(|| self.name().to_owned());
        self.evidence.with(ready)?;
        if let (Some(_), Some(running)) = (self.machine.core, &*self.lock()) {
            running.vmm.give_way().with_context(|| format!("{} cannot give way", self.name()))?;
        }
        Ok(())
    }

    /// Runs a program as an ordinary user. The first word is the program, looked up in the guest's
    /// `PATH`.
    pub fn run(&self, argv: impl IntoIterator<Item = impl Into<String>>) -> anyhow::Result<Run> {
        self.run_as(USER, argv)
    }

    /// Runs a program as any user; 0 is root.
    pub fn run_as(&self, uid: u32, argv: impl IntoIterator<Item = impl Into<String>>) -> anyhow::Result<Run> {
        let argv = argv.into_iter().map(|word| OsString::from(word.into())).collect();
        let program = Program { argv, uid: Some(uid), stdin: true, ..Program::default() };
        Run::start(self.name(), self.agent()?, program, self.patience, self.evidence.clone())
    }

    /// Reads one of the guest's files.
    pub fn read(&self, path: &str) -> anyhow::Result<String> {
        let (_, answers) = self.agent()?.ask(Verb::Read(path.to_owned()))?;
        let text = match answers.recv_timeout(self.patience) {
            Ok(What::Data(text)) => Ok(text),
            Ok(What::Error(reason)) => Err(anyhow!("{}: {reason}", self.name())),
            _ => Err(anyhow!("{}: no answer about {path}", self.name())),
        };
        self.evidence.with(text)
    }

    /// Returns all output of its serial console, for use while the agent does not run.
    pub fn console(&self) -> anyhow::Result<String> {
        let log = &self.machine.console_log;
        let text = std::fs::read(log).with_context(|| format!("cannot read {}", log.display()))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Fails unless the guest's kernel has loaded this module.
    pub fn require_module(&self, module: &str) -> anyhow::Result<()> {
        let modules = self.read("/proc/modules")?;
        if !modules.lines().any(|line| line.split(' ').next() == Some(module)) {
            bail!("{}: the kernel has not loaded the module {module}", self.name());
        }
        Ok(())
    }

    /// Fails unless the build ids of the loaded module and of this file are the same.
    pub fn require_build(&self, module: &str, file: &Path) -> anyhow::Result<()> {
        let built = build_id::of(file)?;
        let note = format!("/sys/module/{module}/notes/{}", build_id::NOTE);
        let loaded = self.run_as(0, ["od", "-An", "-v", "-tx1", &note])?.finish_text();
        let loaded = loaded.with_context(|| format!("cannot read the build id of {module}"))?;
        let loaded: String = loaded.concat().split_whitespace().collect();
        if loaded != built {
            bail!(
                "{}: the loaded module {module} is not {} (build id {loaded}, not {built}): run ./scripts/prepare",
                self.name(),
                file.display()
            );
        }
        Ok(())
    }

    /// Returns the end of the guest's kernel log and its blocked tasks, or why it cannot be read.
    pub fn kernel_log(&self) -> String {
        // "w" makes the kernel print them, each with its stack.
        let script = "echo w >/proc/sysrq-trigger; dmesg";
        let log = self.run_as(0, ["sh", "-c", script]).and_then(|mut dmesg| {
            // A stuck kernel does not answer.
            dmesg.set_patience(self.patience / 4);
            dmesg.finish_text()
        });
        let text = match &log {
            Ok(lines) => {
                let blocked = lines.iter().rposition(|line| line.contains(BLOCKED)).unwrap_or(lines.len());
                let end = lines.len().min(blocked + BLOCKED_LINES);
                lines[blocked.saturating_sub(evidence::LINES)..end].join("\n")
            }
            Err(error) => format!("{error:#}"),
        };
        format!("--- the end of {}'s kernel's log, with blocked tasks ---\n{text}", self.name())
    }

    /// Presses its reset button, and waits until it is ready again. Its programs are lost, but the
    /// card keeps running.
    pub fn reboot(&self) -> anyhow::Result<()> {
        let agent = self.agent()?;
        let boots = agent.boots();
        match self.machine.vmm {
            Vmm::Qemu => monitor::reset(&self.machine.monitor),
            Vmm::CloudHypervisor => order(&self.machine.monitor, "reboot"),
        }
        .with_context(|| self.name().to_owned())?;
        let ready = agent.wait_for_boot(boots, self.patience);
        self.evidence.with(ready.with_context(|| format!("{} after its reset", self.name())))?;
        match self.machine.vmm {
            Vmm::Qemu => monitor::end_on_reboot(&self.machine.monitor),
            Vmm::CloudHypervisor => Ok(()),
        }
    }

    /// Stops its processors like a debugger, which the guest does not notice. [`Vm::resume`] lets
    /// them continue.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.pause_or_resume(true)
    }

    /// Ends [`Vm::pause`].
    pub fn resume(&self) -> anyhow::Result<()> {
        self.pause_or_resume(false)
    }

    fn pause_or_resume(&self, paused: bool) -> anyhow::Result<()> {
        match self.machine.vmm {
            Vmm::Qemu => monitor::pause(&self.machine.monitor, paused),
            Vmm::CloudHypervisor => order(&self.machine.monitor, if paused { "pause" } else { "resume" }),
        }
        .with_context(|| self.name().to_owned())
    }

    /// Fails if the machine has no monitor of QEMU's.
    fn monitor(&self) -> anyhow::Result<&Path> {
        match self.machine.vmm {
            Vmm::Qemu => Ok(&self.machine.monitor),
            Vmm::CloudHypervisor => bail!("{}: Cloud Hypervisor cannot do this, QEMU can", self.name()),
        }
    }

    /// Wakes it after it has suspended itself to memory. Fails if it has not.
    pub fn wake_up(&self) -> anyhow::Result<()> {
        monitor::wake_up(self.monitor()?).with_context(|| self.name().to_owned())
    }

    /// Makes a port of its PCI Express bus report an error. `port` is its id on QEMU's command
    /// line, and `error` is QEMU's name.
    pub fn report_bus_error(&self, port: &str, error: &str) -> anyhow::Result<()> {
        monitor::report_error(self.monitor()?, port, error).with_context(|| self.name().to_owned())
    }

    /// Hot-plugs a device, with the arguments of QEMU's `device_add`.
    pub fn plug_in(&self, device: &Value) -> anyhow::Result<()> {
        monitor::plug_in(self.monitor()?, device).with_context(|| self.name().to_owned())
    }

    /// Kills it like a power cut. [`Vm::start`] boots it again, with the same card process.
    pub fn kill(&self) -> anyhow::Result<()> {
        match self.lock().take() {
            Some(_killed_by_drop) => Ok(()),
            None => bail!("{} is not running", self.name()),
        }
    }

    /// Powers the guest off, and waits for the VMM's end.
    pub fn power_off(&self) -> anyhow::Result<()> {
        let _ends_with_the_machine = self.run_as(0, ["poweroff", "-f"])?;
        let deadline = Instant::now() + self.patience;
        while self.is_running() {
            if Instant::now() > deadline {
                return self.evidence.with(Err(anyhow!(
                    "{} is not off after {:?}",
                    self.name(),
                    self.patience
                )));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Returns whether its VMM runs.
    pub fn is_running(&self) -> bool {
        self.lock().as_mut().is_some_and(Running::goes_on)
    }

    /// Returns whether its VMM runs. Fails if that has failed.
    pub fn check(&self) -> anyhow::Result<bool> {
        let end = match self.lock().as_mut() {
            Some(running) => running.vmm.ended(),
            None => return Ok(false),
        };
        match end {
            None => Ok(true),
            Some(status) if status.success() => Ok(false),
            Some(status) => {
                self.evidence.with(Err(anyhow!("{}'s {} failed ({status})", self.name(), self.machine.vmm)))
            }
        }
    }

    /// Returns the reference by which others find its agent.
    pub(super) fn speaks(&self) -> Speaks {
        self.speaks.clone()
    }

    fn agent(&self) -> anyhow::Result<Arc<Agent>> {
        match self.lock().as_mut().map(|running| (running.goes_on(), &running.agent)) {
            Some((true, agent)) => Ok(agent.clone()),
            _ => bail!("{} is not running", self.name()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the file that keeps the end of a VMM's own output.
fn output(machine: &Machine, run: &Path) -> std::path::PathBuf {
    let vmm = match machine.vmm {
        Vmm::Qemu => "qemu",
        Vmm::CloudHypervisor => "cloud-hypervisor",
    };
    run.join(format!("{}.{vmm}.log", machine.name))
}

/// Connects to the agent. QEMU listens before the guest's first instruction, so a connection made
/// now misses no output.
fn connect(qemu: &mut Process, socket: &Path, patience: Duration) -> anyhow::Result<UnixStream> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(status) = qemu.ended() {
            bail!("{}: QEMU ended at once ({status})", qemu.name());
        }
        match UnixStream::connect(socket) {
            Ok(stream) => return Ok(stream),
            Err(error) if Instant::now() > deadline => {
                return Err(error).with_context(|| format!("cannot connect to {}", socket.display()));
            }
            Err(_) => sleep(Duration::from_millis(5)),
        }
    }
}
