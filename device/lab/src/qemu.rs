//! QEMU's command line.

use std::path::Path;

use hamlyn_agent::protocol::PORT;
use hamlyn_host::rundir::snoop_path;

use super::functions::Functions;
use super::machine::Machine;
use super::memory::Memory;

/// File that QEMU writes the console to: its own standard output, which it does not use otherwise.
/// The lab keeps the end of that output. A file written by QEMU itself would grow without limit.
const CONSOLE_LOG: &str = "/proc/self/fd/1";

/// Returns the arguments that any virtual machine needs to have the card: shared memory and the
/// card's functions.
pub fn card_arguments(socket: &Path, memory: Memory, functions: &Functions) -> Vec<String> {
    let card = functions.devices(socket);
    // The card accesses the guest's memory through this file. With share=off its DMA would silently
    // have no effect.
    let backend = format!("memory-backend-memfd,id=mem,size={memory},share=on");
    let size = memory.to_string();
    let machine = [["-m", &size], ["-object", &backend], ["-machine", "q35,memory-backend=mem"]];
    let machine = machine.concat().into_iter().map(str::to_owned);
    machine.chain(card.into_iter().flat_map(|device| ["-device".to_owned(), device])).collect()
}

/// Returns the arguments that make a machine's QEMU report stores to the card at `socket`, by a
/// plugin. The machine is emulated, and all its processors by one thread: otherwise the order of
/// stores would be unknown.
pub fn snoop_arguments(plugin: &Path, socket: &Path) -> Vec<String> {
    let path = |path: &Path| escape(&path.to_string_lossy());
    let plugin = format!("{},socket={}", path(plugin), path(&snoop_path(socket)));
    ["-accel", SNOOPED_ACCELERATOR, "-plugin", &plugin].map(str::to_owned).to_vec()
}

/// Accelerator of a machine whose stores are snooped.
const SNOOPED_ACCELERATOR: &str = "tcg,thread=single";

/// Parts of a PC that a guest would look for and not use.
const ABSENT: &str = "i8042=off,sata=off,smbus=off";

/// Returns the whole command line, without the program.
pub(super) fn arguments(machine: &Machine) -> Vec<String> {
    let path = |path: &Path| escape(&path.to_string_lossy());
    let listen = |id: &str, socket: &Path| format!("socket,id={id},path={},server=on,wait=off", path(socket));
    let reboot: &[_] = if machine.reboots { &[] } else { &["-no-reboot"] };
    let (mut arguments, rest) = iommu_and_rest(machine);
    arguments.extend(card_arguments(&machine.card, machine.memory, &machine.functions));
    let fixed = ["-nodefaults", "-no-user-config", "-display", "none"];
    arguments.extend(processors(machine));
    // Other QEMU arguments may override how the machine is run.
    let snoop =
        machine.plugin.as_ref().map_or_else(Vec::new, |plugin| snoop_arguments(plugin, &machine.card));
    let [told, snooped] = [&machine.more, &snoop].map(|words| words.iter().any(|word| word == "-accel"));
    let accelerator = machine.accelerator.arguments().into_iter().skip(if told || snooped { 2 } else { 0 });
    arguments.extend(snoop.into_iter().skip(if told { 2 } else { 0 }));
    let fixed = fixed.iter().chain(reboot).copied().chain(accelerator);
    arguments.extend(fixed.map(str::to_owned));
    let options = [
        ("-machine", absent(machine)),
        ("-kernel", machine.kernel.to_string_lossy().into_owned()),
        ("-initrd", machine.initrd.to_string_lossy().into_owned()),
        ("-append", machine.command_line()),
        ("-chardev", format!("{},logfile={CONSOLE_LOG}", listen("console", &machine.console))),
        ("-serial", "chardev:console".to_owned()),
        ("-device", "virtio-serial-pci".to_owned()),
        ("-chardev", listen("agent", &machine.agent)),
        ("-device", format!("virtserialport,chardev=agent,name={PORT}")),
        ("-chardev", listen("monitor", &machine.monitor)),
        ("-qmp", "chardev:monitor".to_owned()),
        // A kernel writes there where its structures are, for dumps of the memory.
        ("-device", "vmcoreinfo".to_owned()),
    ];
    let drive = |disk| format!("if=virtio,format=raw,readonly=on,file={}", path(disk));
    let disk = machine.disk.as_deref().map(|disk| ("-drive", drive(disk)));
    let system = machine.system.clone().map(|drive| ("-drive", drive));
    for (option, value) in options.into_iter().chain(disk).chain(system) {
        arguments.extend([option.to_owned(), value]);
    }
    arguments.extend(rest);
    arguments
}

/// Returns the parts of a PC that the machine does not have. Only a kernel that can be
/// suspended to memory needs the HPET, and one without its compressed shell cannot.
fn absent(machine: &Machine) -> String {
    let wakes_up = machine.kernel.file_name().is_none_or(|name| name != "vmlinux");
    if wakes_up { ABSENT.to_owned() } else { format!("hpet=off,{ABSENT}") }
}

/// Separates an IOMMU from the other arguments, because it must precede the card behind it.
fn iommu_and_rest(machine: &Machine) -> (Vec<String>, Vec<String>) {
    let is_iommu = |pair: &[String]| pair[0] == "-device" && pair[1].starts_with("intel-iommu");
    let (at, mut rest) = (machine.more.windows(2).position(is_iommu), machine.more.clone());
    let iommu = at.map(|at| rest.drain(at..at + 2).collect()).unwrap_or_default();
    (iommu, rest)
}

/// Returns the number of processors, unless other arguments set it.
fn processors(machine: &Machine) -> Vec<String> {
    if machine.more.iter().any(|word| word == "-smp" || word == "--smp") {
        return Vec::new();
    }
    // An emulator with only one possible processor splits a fetch-and-op into a load and a
    // store. Then it is not atomic for other machines that share express memory.
    let needs_two = machine.processors < 2 && machine.functions.have_express();
    let count = format!("{}{}", machine.processors, if needs_two { ",maxcpus=2" } else { "" });
    vec!["-smp".to_owned(), count]
}

/// Doubles commas, as values in QEMU's option lists require.
pub(super) fn escape(value: &str) -> String {
    value.replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::functions::tests::{SOCKET, functions};
    use super::super::machine;
    use super::*;

    #[test]
    fn memory_is_shared_and_devices_name_their_sockets() {
        let arguments = card_arguments(Path::new(SOCKET), Memory::mib(512), &functions(true, 0..1));
        assert!(arguments.contains(&"memory-backend-memfd,id=mem,size=512M,share=on".to_owned()));
        let devices = [7, 9, 11].map(|at| serde_json::from_str::<Value>(&arguments[at]).unwrap());
        let socket = |path: &str| json!({ "type": "unix", "path": path });
        let common = |socket: Value, addr: &str| json!({ "driver": "vfio-user-pci", "socket": socket, "x-msg-timeout": 60_000, "addr": addr });
        let mut first = common(socket("/run/card0.sock"), "0x10.0");
        first["multifunction"] = true.into();
        let others = [("doorbell", "0x10.1"), ("express", "0x10.2")]
            .map(|(name, place)| common(socket(&format!("/run/card0.sock.{name}")), place));
        assert_eq!(devices, [vec![first], others.to_vec()].concat()[..]);
        let express = card_arguments(Path::new(SOCKET), Memory::mib(512), &functions(false, 0..1));
        assert_eq!([&express[7], &express[9], &express[6]], [&arguments[7], &arguments[11], "-device"]);
    }

    fn machine(functions: Functions) -> Machine {
        Machine { functions, ..machine::tests::machine() }
    }

    /// Returns all values of an option.
    fn behind(machine: &Machine, option: &str) -> Vec<String> {
        let words = arguments(machine);
        words.windows(2).filter(|pair| pair[0] == option).map(|pair| pair[1].clone()).collect()
    }

    #[test]
    fn express_memory_requires_two_possible_processors() {
        let mut machine = machine(functions(true, 0..0));
        assert_eq!(behind(&machine, "-smp"), ["1"]);
        machine.functions = functions(true, 0..1);
        assert_eq!(behind(&machine, "-smp"), ["1,maxcpus=2"]);
        machine.processors = 2;
        assert_eq!(behind(&machine, "-smp"), ["2"]);
        machine.more = ["-smp", "4"].map(str::to_owned).to_vec();
        assert_eq!(behind(&machine, "-smp"), ["4"]);
    }

    #[test]
    fn given_accelerator_overrides_the_default() {
        let mut machine = machine(functions(false, 0..0));
        let told = |machine: &Machine| (behind(machine, "-accel"), behind(machine, "-cpu"));
        assert_eq!(told(&machine), (vec!["tcg".to_owned()], vec!["max".to_owned()]));
        machine.more = ["-accel", "tcg,thread=single"].map(str::to_owned).to_vec();
        assert_eq!(told(&machine), (vec!["tcg,thread=single".to_owned()], vec!["max".to_owned()]));
        machine.plugin = Some("/lib/plugin.so".into());
        assert_eq!(told(&machine), (vec!["tcg,thread=single".to_owned()], vec!["max".to_owned()]));
        machine.more = Vec::new();
        assert_eq!(told(&machine), (vec!["tcg,thread=single".to_owned()], vec!["max".to_owned()]));
    }

    #[test]
    fn plugin_is_passed_the_cards_socket() {
        let arguments = snoop_arguments(Path::new("/lib/plugin.so"), Path::new("/run/a,b/card0.sock"));
        let plugin = "/lib/plugin.so,socket=/run/a,,b/card0.sock.snoop";
        assert_eq!(arguments, ["-accel", "tcg,thread=single", "-plugin", plugin]);
    }

    #[test]
    fn commas_in_paths_do_not_end_an_option() {
        assert_eq!(escape("/a,b/c"), "/a,,b/c");
    }
}
