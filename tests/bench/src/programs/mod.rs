//! Programs that know nothing of these cards, over the network device of each model that has one,
//! and over virtio-net between the same machines (docs/ip.md).

mod tools;

use anyhow::{Context, Error, Result};
use hamlyn_host::catalogue;
use hamlyn_lab::{Kit, Lab, Memory, Packages, System, Vm, cores};

use self::tools::{
    MPI_BANDWIDTH, MPI_LATENCY, NFS, PREPARE, QUANTITIES, Quantity, REDIS_1, REDIS_50, SERVE, TCP_RR,
    TCP_STREAM,
};
use crate::engine::benchmark::Benchmark;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{Goal, Need, beside, text};
use crate::engine::progress::Progress;
use crate::engine::report::Table;
use crate::engine::run::Run;
use crate::engine::stats::median;

/// The benchmark of unmodified programs.
pub const BENCHMARK: Benchmark = Benchmark {
    names: &["programs", "nfs"],
    unknown: "no figure of programs is called so",
    experiments: &[
        Experiment {
            name: "programs",
            has_goal: true,
            also: |run, _, _| {
                for model in MODELS {
                    let all = measure(run, model, &QUANTITIES, run.request.effort.rounds());
                    run.goals.extend(goals(model, &all));
                    show(run, &format!("Programs over IP, {model} cards"), NOTE, &all);
                }
                Ok(())
            },
            ..Experiment::NEW
        },
        Experiment {
            name: "nfs",
            also: |run, _, _| {
                for model in MODELS {
                    let all = measure(run, model, &NFS, run.request.effort.figure_rounds());
                    show(run, &format!("NFS over IP, {model} cards"), NFS_NOTE, &all);
                }
                Ok(())
            },
            ..Experiment::NEW
        },
    ],
    parts: None,
};

/// Models with a network device.
const MODELS: [&str; 3] = ["hamlyn", "clan", "dart"];
/// Each host's half of the express memory has room for some 120 connections.
const EXPRESS: [&str; 4] = ["--express", "shared", "--express-part", "16M"];
const RANGE: &str = "10.7.0.0/24";
/// Addresses of the other machine: over the cards, and over virtio-net.
const ADDRESSES: [&str; 2] = ["10.7.0.2", "192.0.2.2"];
/// The MTU of Ethernet, and the largest of each device.
const MTU: u32 = 1500;
const LARGEST: [(&str, u32); 2] = [("uln0", 65_521), ("eth0", 60_000)];

/// What was measured of a quantity: the rounds over the cards, and over virtio-net.
type Measured = (Quantity, [Vec<f64>; 2]);

fn measure(run: &mut Run<'_>, model: &str, quantities: &[Quantity], rounds: usize) -> Vec<Measured> {
    let progress = run.progress;
    let title = format!("programs over {model} cards and over virtio-net");
    let accel = run.request.accel;
    let all = progress.part(&title, || {
        progress.step("boot");
        let packages = Packages::of_lines(include_str!("../../packages"))?;
        let lab = Lab::builder()
            .vms(2)
            .models(&[catalogue::find(model)?])
            .accel(accel)
            .memory(Memory::mib(512))
            .one_process(true)
            .cores(cores(2))
            .network(true)
            .switch_args(EXPRESS)
            .ip(Some(RANGE.parse().map_err(Error::msg)?))
            .system(Some(System::of_packages(&Kit::find()?, &packages)?))
            .start()?;
        in_turn(&lab, quantities, rounds, progress)
    });
    run.noted(all).unwrap_or_default()
}

/// Adds the results to the report, if there are any.
fn show(run: &mut Run<'_>, title: &str, note: &str, all: &[Measured]) {
    if !all.is_empty() {
        run.others.push(table(title, note, all));
    }
}

/// Measures everything over both networks in turn.
fn in_turn(lab: &Lab, quantities: &[Quantity], rounds: usize, progress: &Progress) -> Result<Vec<Measured>> {
    as_root(lab.vm(1), SERVE)?;
    let key = lab.vm(0).run_as(0, ["sh", "-c", PREPARE])?.finish_text()?.join("\n");
    as_root(lab.vm(1), &format!("echo '{key}' > /root/.ssh/authorized_keys"))?;
    let mut all: Vec<Measured> = quantities.iter().map(|quantity| (*quantity, Default::default())).collect();
    for round in 1..=rounds {
        for (quantity, values) in &mut all {
            progress.step(&format!("round {round}: {}", quantity.what));
            set_mtus(lab, quantity.large_mtu)?;
            for (address, values) in ADDRESSES.iter().zip(values) {
                values.push(quantity.measure(lab.vm(0), address)?);
            }
        }
    }
    Ok(all)
}

fn set_mtus(lab: &Lab, is_large: bool) -> Result<()> {
    let set = LARGEST.map(|(device, largest)| {
        format!("ip link set {device} mtu {}", if is_large { largest } else { MTU })
    });
    lab.vms().iter().try_for_each(|vm| as_root(vm, &set.join(" && ")))
}

fn as_root(vm: &Vm, script: &str) -> Result<()> {
    let run = vm.run_as(0, ["sh", "-c", script])?.finish_text();
    run.map(drop).with_context(|| vm.name().to_owned())
}

/// Goals 23 to 28, for each model.
fn goals(model: &str, all: &[Measured]) -> Vec<Goal> {
    let goal = |number, what: &str, unit, need| {
        let found = all.iter().find(|(quantity, _)| quantity.what == what).map(|(_, values)| values);
        let [own, peer] = found.map_or([&[][..]; 2], |[own, peer]| [own, peer]);
        Goal::beside(number, &format!("{what}, {model} cards"), unit, own, ("virtio-net", peer), need)
    };
    vec![
        goal(23, TCP_STREAM, "MB/s", Need::RatioAtLeast(5.0)),
        goal(24, TCP_RR, "us", Need::RatioAtMost(1.0 / 3.0)),
        goal(25, MPI_LATENCY, "us", Need::RatioAtMost(0.1)),
        goal(26, MPI_BANDWIDTH, "MB/s", Need::RatioAtLeast(5.0)),
        goal(27, REDIS_1, "/s", Need::RatioAtLeast(20.0)),
        goal(28, REDIS_50, "/s", Need::RatioAtLeast(5.0)),
    ]
}

const NOTE: &str = "Medians of rounds that were measured in turn, in the same two machines, with the interval of the ratio's median. \
    Both networks are of the guests' kernels, but MPI over cards goes by the provider for libfabric, and what hamlyn-run starts by channels. A round trip is there and back.";
const NFS_NOTE: &str = "fio in a folder that the other machine has in its memory. Medians of rounds that were measured in turn, in the same two machines.";

fn table(title: &str, note: &str, all: &[Measured]) -> Table {
    let middle = |values: &[f64]| text(median(values.to_vec()));
    Table::new(
        title,
        note,
        all,
        &[
            ("", &|(quantity, _)| format!("{}, {}", quantity.what, quantity.unit)),
            ("cards", &|(_, [own, _])| middle(own)),
            ("virtio-net", &|(_, [_, peer])| middle(peer)),
            ("ratio", &|(_, [own, peer])| beside(own, peer)),
            ("better", &|(quantity, _)| if quantity.is_rate { "more" } else { "less" }.to_owned()),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::goals::Verdict;

    #[test]
    fn goals_compare_both_networks() {
        let value = |quantity: &Quantity| match quantity.what {
            TCP_STREAM | MPI_BANDWIDTH | REDIS_1 | REDIS_50 => [vec![500.0; 3], vec![90.0; 3]],
            _ => [vec![400.0; 3], vec![900.0; 3]],
        };
        let all: Vec<Measured> = QUANTITIES.iter().map(|quantity| (*quantity, value(quantity))).collect();
        let verdicts = |all: &[Measured]| goals("x", all).iter().map(Goal::verdict).collect::<Vec<_>>();
        assert_eq!(
            verdicts(&all),
            [Verdict::Met, Verdict::Short, Verdict::Short, Verdict::Met, Verdict::Short, Verdict::Met]
        );
        assert_eq!(verdicts(&[]), [Verdict::NotMeasured; 6]);
        assert_eq!(table("x", NOTE, &all).rows.len(), QUANTITIES.len());
    }
}
