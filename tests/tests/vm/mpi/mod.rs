//! Debian's Open MPI, libfabric's own programs and HPCC over the provider for libfabric, between
//! machines.

use std::time::Duration;

use anyhow::{Result, ensure};
use hamlyn_lab::{Builder, Kit, Lab, Memory, Packages, Run, System, Vm};

use crate::left::log_is_clean;
use crate::network::{network, root, wait_for_answer, wait_until};
use crate::turn::{LIMIT, lab_of};

/// Options with which Open MPI uses the provider. Debian's configuration excludes libfabric.
const MPIRUN: &str = "timeout 1500 mpirun --allow-run-as-root --bind-to none --hostfile hosts \
    --mca opal_common_ofi_provider_include hamlyn";
/// Longer than the limit of `mpirun`, which prints nothing while it starts its processes.
const PATIENCE: Duration = Duration::from_secs(1600);
/// Of these two, messages use the first, and one-sided operations need the second.
const BY_TAGS: &str = "--mca pml cm --mca mtl ofi";
const BY_MEMORY: &str = "--mca pml ob1 --mca btl ofi,self --mca btl_ofi_mode 2";

fn with_packages(builder: Builder) -> Result<Builder> {
    let packages = Packages::of_lines(include_str!("../../../packages"))?;
    let system = System::of_packages(&Kit::find()?, &packages)?;
    Ok(builder.system(Some(system)).memory(Memory::mib(512)))
}

/// Lets the first machine start programs in all, and gives all of them the test's files.
fn prepare(lab: &Lab, slots: usize) -> Result<()> {
    let first = lab.vm(0);
    let key = root(first, "ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519; cat /root/.ssh/*.pub")?;
    for vm in lab.vms() {
        let start = format!(
            "set -e
            mkdir -p /run/sshd; ssh-keygen -A >/dev/null; /usr/sbin/sshd
            printf 'Host *\\n StrictHostKeyChecking no\\n UserKnownHostsFile /dev/null\\n LogLevel ERROR\\n' > /root/.ssh/config
            echo '{key}' > /root/.ssh/authorized_keys
            cat > /root/check.py <<'END'\n{}\nEND\ncat > /root/onesided.py <<'END'\n{}\nEND
            cat > /root/hpccinf.txt <<'END'\n{}\nEND",
            include_str!("check.py"),
            include_str!("onesided.py"),
            include_str!("hpccinf.txt"),
        );
        root(vm, &start)?;
        root(first, &format!("echo '{} slots={slots}' >> /root/hosts", vm.name()))?;
        if vm.name() != first.name() {
            wait_for_answer(first, vm.name())?;
        }
    }
    Ok(())
}

/// Starts a job in the first machine.
fn start(first: &Vm, job: &str) -> Result<Run> {
    let mut job = first.run_as(0, ["sh", "-c", &format!("cd /root; {MPIRUN} {job}")])?;
    job.set_patience(PATIENCE);
    Ok(job)
}

/// Every rank has checked what it received.
fn check(lab: &Lab, ranks: usize, options: &str) -> Result<()> {
    for how in [
        format!("{BY_TAGS} -n {ranks} python3 check.py"),
        format!("{BY_MEMORY} -n {ranks} python3 onesided.py"),
    ] {
        let said = start(lab.vm(0), &format!("{options} {how}"))?.finish_text()?.join("\n");
        for rank in 0..ranks {
            ensure!(said.contains(&format!("checked by rank {rank} of {ranks}")), "{how}: {said}");
        }
    }
    Ok(())
}

/// libfabric's own program, with messages of each kind, whose bytes it checks.
fn ping_pong(lab: &Lab) -> Result<()> {
    let messages =
        [("msg", 0), ("msg", 64), ("msg", 16384), ("msg", 1 << 20), ("tagged", 4096), ("tagged", 100_000)];
    for (kind, size) in messages {
        let program = format!("timeout {LIMIT} fi_pingpong -p hamlyn -e rdm -c -m {kind} -I 20 -S {size}");
        let mut server = lab.vm(1).run_as(0, ["sh", "-c", &format!("echo ready; {program} 2>&1")])?;
        server.line()?;
        wait_until(lab.vm(1), "netstat -ltn | grep -q :47592")?;
        let said = root(lab.vm(0), &format!("{program} vm1 2>&1"))?;
        ensure!(said.lines().last().is_some_and(|line| line.contains("=20")), "{kind} {size}: {said}");
        server.finish_text()?;
    }
    Ok(())
}

fn hpcc(first: &Vm) -> Result<()> {
    let said = start(first, &format!("{BY_TAGS} -n 2 hpcc && cat hpccoutf.txt"))?.finish_text()?.join("\n");
    for wanted in ["Success=1", "5 tests completed and passed residual checks", "MPIRandomAccess_Errors=0"] {
        ensure!(said.contains(wanted), "no {wanted:?} in {said}");
    }
    Ok(())
}

/// A rank that is killed ends the job with an error, and no process of it is left.
fn killed_rank_ends_job(lab: &Lab) -> Result<()> {
    let program = "from mpi4py import MPI\nprint('up', flush=True)\nwhile True: MPI.COMM_WORLD.allreduce(1)";
    root(lab.vm(0), &format!("echo \"{program}\" > /root/loop.py"))?;
    root(lab.vm(1), &format!("echo \"{program}\" > /root/loop.py"))?;
    let mut job =
        start(lab.vm(0), &format!("{BY_TAGS} -n 2 --map-by node python3 loop.py 2>&1; echo ended $?"))?;
    for _ in 0..2 {
        while !job.line()?.contains("up") {}
    }
    root(lab.vm(1), "pkill -9 -f '[l]oop.py'")?;
    let said = job.finish_text()?.join("\n");
    ensure!(said.contains("signal 9 (Killed)") && said.contains("ended 137"), "{said}");
    for vm in [lab.vm(0), lab.vm(1)] {
        wait_until(vm, "! pgrep -f '[l]oop.py|[p]rte' >/dev/null")?;
    }
    Ok(())
}

#[test]
fn mpi_runs_over_hamlyn_cards_of_three_machines() -> Result<()> {
    let lab = lab_of(with_packages(network("hamlyn", 3)?)?);
    prepare(&lab, 2)?;
    let listed = root(lab.vm(0), "fi_info -p hamlyn")?;
    ensure!(
        ["fabric: uln", "domain: hamlyn", "FI_EP_RDM"].iter().all(|what| listed.contains(what)),
        "{listed}"
    );
    check(&lab, 2, "")?;
    check(&lab, 6, "")?;
    ping_pong(&lab)?;
    hpcc(lab.vm(0))?;
    killed_rank_ends_job(&lab)?;
    (0..3).try_for_each(|vm| log_is_clean(&lab, vm))
}

#[test]
fn mpi_runs_over_express_memory() -> Result<()> {
    let lab =
        lab_of(with_packages(network("hamlyn", 2)?)?.switch_args(["--express", "shared", "--ports", "4"]));
    prepare(&lab, 1)?;
    check(&lab, 2, "")?;
    check(&lab, 2, "-x FI_HAMLYN_EXPRESS=no")?;
    (0..2).try_for_each(|vm| log_is_clean(&lab, vm))
}

/// Runs MPI between two machines with the test's packages.
pub(crate) fn runs_between(lab: &Lab) -> Result<()> {
    prepare(lab, 1)?;
    check(lab, 2, "")
}
