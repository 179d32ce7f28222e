//! The program's commands, one file each.

mod card;
mod console;
mod cp;
mod demo;
mod doctor;
mod driver_test;
mod dump;
mod exec;
mod fabric;
mod fault;
mod gdb;
mod lab;
mod layout;
mod machines;
mod metrics;
mod models;
mod options;
mod qemu_args;
mod replay;
mod sim;
mod stat;
mod switch;
mod top;
mod trace;
mod up;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};

use hamlyn_host::catalogue;
use hamlyn_lab::{Accel, Accelerator, Memory, Snoop, Vmm};
use lab::file::{Description, Fabric, Machine};
use lab::value::{AccelWord, ExpressWord, LayoutWord, ModelName, SnoopWord, VmmWord};
use layout::Layout;

const EXAMPLES: &str = "\
Examples:
  hamlyn demo                    two machines exchange messages; ends with a table
  hamlyn up -n 3                 three machines to play with, until Ctrl-C
  hamlyn lab up docs/labs/pair.toml   the same from a file, with programs to run
  hamlyn exec vm0 -- hamlyn-info runs a program there; hamlyn cp FILE vm0: brings it
  hamlyn console vm0             a shell in the first of them (in another terminal)
  hamlyn stat --watch            what cards and switch are doing
  hamlyn top                     the same as rates, on one screen
  hamlyn trace card0             each access, command, packet and interrupt of a card
  hamlyn record card0 -w FILE    all that a card sees; hamlyn replay FILE makes it do the same again
  hamlyn fault card0 'interrupt drop every=10'   a card that misbehaves by rule
  hamlyn doctor                  what is missing on this host
  hamlyn models                  which cards there are; --model NAME takes another than the first

  # by hand, with your own machine:
  dir=$(mktemp -d)               yours alone: access to the sockets is access to the machines' memory
  hamlyn switch --socket $dir/s.sock &
  hamlyn card --socket $dir/c0.sock --switch $dir/s.sock &
  hamlyn qemu-args --socket $dir/c0.sock --memory 1G     add these to your QEMU's arguments

HAMLYN_LOG sets how much is logged: error, warn, info, debug, trace. HAMLYN_LOG_FORMAT=json logs
JSON objects.";

/// A virtual user-level network card: stock QEMU loads it over vfio-user.
///
/// Each virtual machine has a card, a process that speaks vfio-user with QEMU. A switch links the
/// cards. Programs in the machines exchange messages by writing into their own mapped part of the
/// card, without system calls.
#[derive(Debug, Parser)]
#[command(name = "hamlyn", version, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    Up(up::UpArgs),
    Lab(lab::LabArgs),
    Console(console::ConsoleArgs),
    Exec(exec::ExecArgs),
    Cp(cp::CpArgs),
    Stat(stat::StatArgs),
    Top(top::TopArgs),
    Metrics(metrics::MetricsArgs),
    Trace(trace::TraceArgs),
    Capture(trace::CaptureArgs),
    Record(trace::RecordArgs),
    Replay(replay::ReplayArgs),
    Fault(fault::FaultArgs),
    QemuArgs(qemu_args::QemuArgs),
    Models(models::ModelsArgs),
    Doctor(doctor::DoctorArgs),
    Card(card::CardArgs),
    Switch(switch::SwitchArgs),
    Fabric(fabric::FabricArgs),
    Sim(sim::SimArgs),
    DriverTest(driver_test::DriverTestArgs),
    Gdb(gdb::GdbArgs),
    Dump(dump::DumpArgs),
    /// Print a completion script for a shell
    #[command(after_help = "\
Example:
  hamlyn completions bash > ~/.local/share/bash-completion/completions/hamlyn")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Become another program that dies with this process's parent
    #[command(hide = true)]
    Tether {
        parent: u32,
        #[arg(long, value_parser = clap::value_parser!(u16).range(..1024))]
        core: Option<u16>,
        #[arg(last = true, required = true)]
        program: Vec<OsString>,
    },
    /// Remove a lab's directory at the end of standard input
    #[command(hide = true)]
    Keeper {
        directory: PathBuf,
        logs: Option<PathBuf>,
    },
}

impl Cli {
    /// Runs the command.
    ///
    /// # Errors
    /// Returns the failure and its cause.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let done = match self.command {
            // Its exit status is that of the program in the machine.
            Command::Exec(args) => return Ok(exec::run(args)),
            Command::Gdb(args) => return gdb::run(&args),
            Command::Doctor(args) => return doctor::run(&args),
            Command::Lab(args) => return lab::run(args),
            Command::Cp(args) => cp::run(args),
            Command::Demo(args) => demo::run(args),
            Command::Up(args) => up::run(args),
            Command::Console(args) => console::run(args),
            Command::Stat(args) => stat::run(args),
            Command::Top(args) => top::run(&args),
            Command::Metrics(args) => metrics::run(&args),
            Command::Trace(args) => trace::run(args),
            Command::Capture(args) => trace::run_capture(args),
            Command::Record(args) => trace::run_record(args),
            Command::Replay(args) => replay::run(&args),
            Command::Fault(args) => fault::run(&args),
            Command::QemuArgs(args) => qemu_args::run(args),
            Command::Models(args) => models::run(&args),
            Command::Card(args) => card::run(args),
            Command::Switch(args) => switch::run(&args),
            Command::Fabric(args) => fabric::run(args),
            Command::Sim(args) => sim::run(&args),
            Command::DriverTest(args) => driver_test::run(args),
            Command::Dump(args) => dump::run(&args),
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut shown(), "hamlyn", &mut script);
                Ok(io::stdout().write_all(&script)?)
            }
            Command::Tether { parent, core, program } => hamlyn_lab::tether(parent, core, &program),
            Command::Keeper { directory, logs } => hamlyn_lab::keep(&directory, logs.as_deref()),
        };
        done.map(|()| ExitCode::SUCCESS)
    }
}

/// Returns the command line without internal commands, which completions would otherwise offer.
fn shown() -> clap::Command {
    let all = Cli::command();
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    clap::Command::new("hamlyn").version(env!("CARGO_PKG_VERSION")).subcommands(shown)
}

/// Prints a line on standard error, if that is not closed.
fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Arguments shared by the commands that start machines.
#[derive(Debug, Clone, Args)]
struct MachineArgs {
    #[command(flatten)]
    model: options::ModelsFlag,
    /// The program that runs the machines
    #[arg(long, value_enum, default_value_t)]
    vmm: Vmm,
    /// Accelerator of the machines
    #[arg(long, value_enum, default_value_t)]
    accel: Accel,
    /// How stores reach a card that snoops them
    #[arg(long, value_enum, default_value_t)]
    snoop: Snoop,
    /// Memory of each machine
    #[arg(long, value_name = "SIZE", default_value_t = Memory::DEFAULT)]
    memory: Memory,
    #[command(flatten)]
    routing: switch::RoutingArgs,
    #[command(flatten)]
    express: switch::ExpressArgs,
    #[command(flatten)]
    layout: layout::LayoutArgs,
}

impl MachineArgs {
    /// Chooses the accelerator.
    fn accelerator(&self) -> anyhow::Result<Accelerator> {
        self.vmm.decide(self.accel)
    }

    /// Chooses the layout for this number of machines.
    fn layout(&self, machines: usize) -> Layout {
        self.layout.choose(self.vmm, machines)
    }

    /// Returns the same arguments, with express memory.
    fn with_express(&self) -> Self {
        Self { express: self.express.with_some(), ..self.clone() }
    }

    /// Returns a lab with this number of machines.
    fn description(&self, machines: usize) -> anyhow::Result<Description> {
        let models = catalogue::each(&self.model.models, machines)?;
        let machine = |model| Machine { memory: self.memory, model: ModelName(model), ..Machine::default() };
        let switch::RoutingArgs { paths, mesh, quantum } = self.routing;
        let switch::ExpressArgs { express, express_part } = self.express;
        let fabric = Fabric {
            layout: LayoutWord(self.layout.name()),
            cores: self.layout.cores().to_vec(),
            paths,
            mesh,
            cutting: quantum,
            express: ExpressWord(express),
            express_part,
            card_arguments: Vec::new(),
        };
        Ok(Description {
            vmm: VmmWord(self.vmm),
            accel: AccelWord(self.accel),
            snoop: SnoopWord(self.snoop),
            fabric,
            machines: models.into_iter().map(machine).collect(),
            ..Description::default()
        })
    }

    /// Returns a lab with this number of machines and this layout.
    fn lab(&self, machines: usize, layout: &Layout) -> anyhow::Result<hamlyn_lab::Builder> {
        self.description(machines)?.builder(layout, |_| {})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_definition_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn wrong_values_are_refused_with_their_limits() {
        let error = |line: &str| Cli::try_parse_from(line.split(' ')).unwrap_err().to_string();
        assert!(error("hamlyn up --memory 1M").contains("1 MiB is out of range (limits 128 and"));
        assert!(error("hamlyn up -n 0").contains("0 is not in 1..=64"));
        assert!(error("hamlyn up --accel fast").contains("possible values: auto, tcg, kvm"));
        assert!(error("hamlyn switch --socket s --ports 0").contains("0 is not in"));
        assert!(error("hamlyn up --isolate --cores 0").contains("cannot be used with"));
        assert!(error("hamlyn up --add :x").contains("is not FILE or FILE:NAME"));
        for command in ["card --socket c --switch s", "fabric --socket c", "up", "demo", "sim", "driver-test"]
        {
            assert!(error(&format!("hamlyn {command} --model x")).contains("possible values: hamlyn"));
        }
        assert!(error("hamlyn qemu-args --socket c --model x").contains("possible values: hamlyn"));
        for command in ["switch --socket s", "up", "demo"] {
            assert!(error(&format!("hamlyn {command} --paths 17")).contains("17 is not in 1..=16"));
            assert!(
                error(&format!("hamlyn {command} --mesh 4x0"))
                    .contains("is not a mesh (wanted: columns x rows")
            );
            assert!(error(&format!("hamlyn {command} --mesh 4x4 --paths 2")).contains("cannot be used with"));
        }
    }

    #[test]
    fn every_show_belongs_to_a_model() {
        for name in demo::SHOWS.names() {
            assert!(catalogue::find(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn arguments_after_two_dashes_are_for_cards() {
        let cli = Cli::try_parse_from(["hamlyn", "up", "--", "--packet-size", "1024"]).unwrap();
        assert!(format!("{cli:?}").contains(r#"["--packet-size", "1024"]"#));
    }
}
