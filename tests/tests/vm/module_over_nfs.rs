//! A kernel module that is built in another machine's folder.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Kit, Memory, Packages, System};

use crate::if_long;
use crate::left::log_is_clean;
use crate::network::{network, root, wait_for_answer, wait_until};
use crate::turn::lab_of;
use crate::unmodified::EXPORT;

/// Writes a module of several files, each with many of the kernel's headers.
const SOURCES: &str = r##"set -e
    mkdir /source /build; cd /source
    for i in 1 2 3 4 5 6; do
        echo "#include <linux/netdevice.h>
            int part$i(const struct sk_buff *skb);
            int part$i(const struct sk_buff *skb) { return skb->len + $i; }" > part$i.c
    done
    echo 'obj-m := built.o
built-y := part1.o part2.o part3.o part4.o part5.o part6.o main.o' > Kbuild
    echo '#include <linux/module.h>
        MODULE_DESCRIPTION("A module"); MODULE_LICENSE("GPL");' > main.c"##;

/// Builds it, always in the same folder, so that the results have the same bytes.
const BUILD: &str = "echo begun; cp /source/* /build &&
    make -C /usr/src/linux-headers-*-cloud-amd64 M=/build modules > /tmp/built 2>&1";

/// Longest build of an emulated machine.
const PATIENCE: Duration = Duration::from_secs(1800);

#[test]
fn module_is_built_over_nfs_while_server_reboots() -> Result<()> {
    if if_long(1, 0) == 0 {
        return Ok(());
    }
    let packages = Packages::of_lines(include_str!("../../packages-long"))?;
    let system = System::of_packages(&Kit::find()?, &packages)?;
    let lab = lab_of(network("hamlyn", 2)?.system(Some(system)).memory(Memory::mib(512)).reboots(true));
    let (client, server) = (lab.vm(0), lab.vm(1));
    root(server, EXPORT)?;
    wait_for_answer(client, "vm1")?;
    let build = || {
        let mut build = client.run_as(0, ["sh", "-c", BUILD])?;
        build.set_patience(PATIENCE);
        build.line()?;
        anyhow::Ok(build)
    };
    let said = || root(client, "tail -n 20 /tmp/built").unwrap_or_default();

    root(client, SOURCES)?;
    build()?.finish_text().with_context(said)?;
    root(client, "mv /build /local && mkdir /build && mount -t nfs4 vm1:/tree /build")?;
    let mut over_nfs = build()?;
    wait_until(client, "[ -s /build/part2.o ]")?;
    ensure!(root(client, "ls /build")?.lines().all(|file| file != "built.ko"), "the build was over too soon");
    server.reboot()?;
    root(server, EXPORT)?;
    over_nfs.finish_text().with_context(said)?;
    root(client, "[ -s /local/built.ko ] && diff -r /local /build && umount /build")?;
    (0..2).try_for_each(|vm| log_is_clean(&lab, vm))
}
