//! QEMU's command line.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use hamlyn_agent::protocol::PORT;
use hamlyn_host::rundir::{doorbell_path, express_paths, snoop_path};
use serde_json::{Value, json};

use super::accel::Accelerator;

/// How long QEMU waits for the answer to an access, in milliseconds.
///
/// A card process that is stopped for longer is lost to its machine, because a late answer corrupts
/// the stream permanently. The default of 5 s is short. A machine whose card is killed during an
/// access hangs for this long.
const MESSAGE_TIMEOUT: u32 = 60_000;

/// File that QEMU writes the console to: its own standard output, which it does not use otherwise.
/// The lab keeps the end of that output. A file written by QEMU itself would grow without limit.
const CONSOLE_LOG: &str = "/proc/self/fd/1";

/// A guest's memory, in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory(u32);

impl Memory {
    /// The default of a machine: our image, and as much again for programs.
    pub const DEFAULT: Memory = Memory(384);
    /// No Debian kernel boots with less.
    const LEAST: u32 = 128;
    /// Memory that a kernel needs in addition to its image.
    const KERNEL: u32 = 80;
    /// More than any host has.
    const MOST: u32 = 1 << 20;

    /// Returns `mib` MiB.
    pub const fn mib(mib: u32) -> Memory {
        Memory(mib)
    }

    /// Returns `mib` MiB more, limited to the maximum.
    pub(super) fn with(self, mib: u32) -> Memory {
        Memory(self.0.saturating_add(mib).min(Memory::MOST))
    }

    /// Returns the end of the machine's memory on its bus, in MiB. A q35 machine puts memory that
    /// does not fit below 4 GiB at 4 GiB and above.
    pub(super) fn end(self) -> u32 {
        const ABOVE: u32 = 4096;
        /// A machine with at least this much has only [`BELOW`] below 4 GiB.
        const SPLIT: u32 = 0xb00;
        const BELOW: u32 = 2048;
        if self.0 < SPLIT { ABOVE } else { ABOVE + self.0 - BELOW }
    }

    /// Refuses a machine that could not boot from an image of `length` bytes: its kernel would
    /// panic without a message.
    pub(super) fn check_image(self, length: u64) -> Result<(), String> {
        let image = u32::try_from(length.div_ceil(1 << 20)).unwrap_or(u32::MAX);
        let least = image.saturating_mul(2).saturating_add(Memory::KERNEL);
        if self.0 < least {
            return Err(format!(
                "{} MiB are too little memory for a machine whose image has {image} MiB, which is there twice while it is \
                 unpacked (least {least})",
                self.0
            ));
        }
        Ok(())
    }
}

impl FromStr for Memory {
    type Err = String;

    fn from_str(text: &str) -> Result<Memory, String> {
        let (digits, unit) = match text.strip_suffix(['G', 'g']) {
            Some(digits) => (digits, 1024),
            None => (text.strip_suffix(['M', 'm']).unwrap_or(text), 1),
        };
        let count: u32 = digits.parse().map_err(|_| format!("{text:?} is not a size such as 256M or 1G"))?;
        let mib = count.saturating_mul(unit);
        if !(Memory::LEAST..=Memory::MOST).contains(&mib) {
            return Err(format!("{mib} MiB is out of range (limits {} and {})", Memory::LEAST, Memory::MOST));
        }
        Ok(Memory(mib))
    }
}

impl std::fmt::Display for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}M", self.0)
    }
}

/// Default slot of the card's functions on the machine's PCI bus. It is high, because QEMU gives
/// the low slots to devices that ask for none.
pub const CARD_SLOT: u8 = 0x10;

/// The last slot that they may have. Later ones belong to the machine itself.
const LAST_SLOT: u8 = 30;
/// Functions of a slot.
const SLOT: usize = 8;

/// The PCI functions of a machine's card, in one slot of the bus, and in the following ones if
/// there are more than eight. A single function may be anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Functions {
    slot: u8,
    doorbells: bool,
    /// Sockets of the functions with express memory. They begin with the third function.
    express: Vec<PathBuf>,
}

impl Functions {
    /// Returns the functions of the card that listens at `socket`, from this slot on. The second
    /// function has the doorbells if `doorbells` is set; otherwise each doorbell is a round trip.
    /// Fails if there are too few slots.
    pub fn of(socket: &Path, slot: u8, doorbells: bool) -> Result<Functions, String> {
        let express = express_paths(socket).filter(|path| path.exists()).collect();
        Functions::new(slot, doorbells, express)
    }

    fn new(slot: u8, doorbells: bool, express: Vec<PathBuf>) -> Result<Functions, String> {
        let count = 2 + express.len();
        let last = usize::from(slot) + (count - 1) / SLOT;
        if last > LAST_SLOT.into() {
            return Err(format!(
                "a card of {count} PCI functions in slot {slot} and those behind it needs slot {last} (limit \
                 {LAST_SLOT}): take a lower one"
            ));
        }
        Ok(Functions { slot, doorbells, express })
    }

    /// Returns the functions as QEMU's devices.
    fn devices(&self, socket: &Path) -> Vec<String> {
        let all = 2 + self.express.len();
        let at = |number: usize| {
            let mut place =
                json!({ "addr": format!("{:#x}.{}", usize::from(self.slot) + number / SLOT, number % SLOT) });
            // The first function of a slot announces further ones. A slot without a first function
            // is not scanned.
            if number % SLOT == 0 && number + 1 < all {
                place["multifunction"] = true.into();
            }
            place
        };
        let is_alone = !self.doorbells && self.express.is_empty();
        let first = if is_alone { json!({}) } else { at(0) };
        let doorbells = self.doorbells.then(|| function(&doorbell_path(socket), at(1)));
        let express = self.express.iter().zip(2..).map(|(path, number)| function(path, at(number)));
        [function(socket, first)].into_iter().chain(doorbells).chain(express).collect()
    }
}

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

/// Returns a function of the card as QEMU's device, with `more` properties.
fn function(socket: &Path, mut more: Value) -> String {
    more["driver"] = "vfio-user-pci".into();
    more["socket"] = json!({ "path": socket, "type": "unix" });
    more["x-msg-timeout"] = MESSAGE_TIMEOUT.into();
    more.to_string()
}

/// Description of one of a lab's machines.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    /// The guest's host name.
    pub name: String,
    /// Its accelerator.
    pub accelerator: Accelerator,
    /// Whether it boots again when the guest asks for it, like a real machine. Otherwise it ends,
    /// also on a kernel panic.
    pub reboots: bool,
    /// Its memory.
    pub memory: Memory,
    /// The host's core that it is pinned to.
    pub core: Option<u16>,
    /// The kernel.
    pub kernel: PathBuf,
    /// The initial RAM disk.
    pub initrd: PathBuf,
    /// A read-only disk.
    pub disk: Option<PathBuf>,
    /// The drive with a disk that becomes its root.
    pub system: Option<String>,
    /// Additional words for the kernel's command line.
    pub append: String,
    /// The card's socket, where QEMU connects.
    pub card: PathBuf,
    /// PCI functions of the card.
    pub functions: Functions,
    /// Plugin that reports the machine's stores to the card.
    pub plugin: Option<PathBuf>,
    /// The serial console's socket, where QEMU listens.
    pub console: PathBuf,
    /// File that keeps the end of the console's output.
    pub console_log: PathBuf,
    /// The agent's socket, where QEMU listens.
    pub agent: PathBuf,
    /// The machine monitor's socket, where QEMU listens.
    pub monitor: PathBuf,
    /// More arguments, for other devices.
    pub more: Vec<String>,
}

/// Parts of a PC that a guest would look for and not use.
const ABSENT: &str = "i8042=off,sata=off,smbus=off";

impl Machine {
    /// Returns the whole command line, without the program.
    pub(super) fn arguments(&self) -> Vec<String> {
        let path = |path: &Path| escape(&path.to_string_lossy());
        let listen =
            |id: &str, socket: &Path| format!("socket,id={id},path={},server=on,wait=off", path(socket));
        // A kernel that panics reboots at once, or stops for inspection.
        let (reboot, panic): (&[_], _) = if self.reboots { (&[], 0) } else { (&["-no-reboot"], -1) };
        // `rootfstype`: the image's file system may need more than the half of a small machine's
        // memory that tmpfs would allow. `no_timer_check`: a kernel under emulation on a busy host
        // detects its timer too late, and panics. The rest and ABSENT save an emulated machine 3 of
        // the 6 seconds until it is ready: tests of unused ciphers, checks of the certificates for
        // signed modules, security modules without a policy, and serial ports that do not exist.
        let fixed = "console=ttyS0 quiet rootfstype=ramfs no_timer_check cryptomgr.notests lsm= 8250.nr_uarts=1 \
                     initcall_blacklist=load_system_certificate_list";
        let command_line = format!("{fixed} panic={panic} hamlyn.name={} {}", self.name, self.append);
        let (mut arguments, rest) = self.iommu_and_rest();
        arguments.extend(card_arguments(&self.card, self.memory, &self.functions));
        let fixed = ["-nodefaults", "-no-user-config", "-display", "none"];
        arguments.extend(self.processors());
        // Other QEMU arguments may override how the machine is run.
        let snoop = self.plugin.as_ref().map_or_else(Vec::new, |plugin| snoop_arguments(plugin, &self.card));
        let [told, snooped] = [&self.more, &snoop].map(|words| words.iter().any(|word| word == "-accel"));
        let accelerator = self.accelerator.arguments().into_iter().skip(if told || snooped { 2 } else { 0 });
        arguments.extend(snoop.into_iter().skip(if told { 2 } else { 0 }));
        let fixed = fixed.iter().chain(reboot).copied().chain(accelerator);
        arguments.extend(fixed.map(str::to_owned));
        let options = [
            ("-machine", self.absent()),
            ("-kernel", self.kernel.to_string_lossy().into_owned()),
            ("-initrd", self.initrd.to_string_lossy().into_owned()),
            ("-append", command_line.trim_end().to_owned()),
            ("-chardev", format!("{},logfile={CONSOLE_LOG}", listen("console", &self.console))),
            ("-serial", "chardev:console".to_owned()),
            ("-device", "virtio-serial-pci".to_owned()),
            ("-chardev", listen("agent", &self.agent)),
            ("-device", format!("virtserialport,chardev=agent,name={PORT}")),
            ("-chardev", listen("monitor", &self.monitor)),
            ("-qmp", "chardev:monitor".to_owned()),
            // A kernel writes there where its structures are, for dumps of the memory.
            ("-device", "vmcoreinfo".to_owned()),
        ];
        let drive = |disk| format!("if=virtio,format=raw,readonly=on,file={}", path(disk));
        let disk = self.disk.as_deref().map(|disk| ("-drive", drive(disk)));
        let system = self.system.clone().map(|drive| ("-drive", drive));
        for (option, value) in options.into_iter().chain(disk).chain(system) {
            arguments.extend([option.to_owned(), value]);
        }
        arguments.extend(rest);
        arguments
    }

    /// Returns the parts of a PC that the machine does not have. Only a kernel that can be
    /// suspended to memory needs the HPET, and one without its compressed shell cannot.
    fn absent(&self) -> String {
        let wakes_up = self.kernel.file_name().is_none_or(|name| name != "vmlinux");
        if wakes_up { ABSENT.to_owned() } else { format!("hpet=off,{ABSENT}") }
    }

    /// Separates an IOMMU from the other arguments, because it must precede the card behind it.
    fn iommu_and_rest(&self) -> (Vec<String>, Vec<String>) {
        let is_iommu = |pair: &[String]| pair[0] == "-device" && pair[1].starts_with("intel-iommu");
        let (at, mut rest) = (self.more.windows(2).position(is_iommu), self.more.clone());
        let iommu = at.map(|at| rest.drain(at..at + 2).collect()).unwrap_or_default();
        (iommu, rest)
    }

    /// Returns the number of processors, unless other arguments set it.
    fn processors(&self) -> Vec<String> {
        if self.more.iter().any(|word| word == "-smp" || word == "--smp") {
            return Vec::new();
        }
        // An emulator with only one possible processor splits a fetch-and-op into a load and a
        // store. Then it is not atomic for other machines that share express memory.
        let count = if self.functions.express.is_empty() { "1" } else { "1,maxcpus=2" };
        ["-smp", count].map(str::to_owned).to_vec()
    }
}

/// Doubles commas, as values in QEMU's option lists require.
pub(super) fn escape(value: &str) -> String {
    value.replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOCKET: &str = "/run/card0.sock";

    /// Returns functions with the given range of express functions.
    fn functions(doorbells: bool, express: std::ops::Range<usize>) -> Functions {
        let express = express_paths(Path::new(SOCKET)).collect::<Vec<_>>()[express].to_vec();
        Functions::new(CARD_SLOT, doorbells, express).unwrap()
    }

    fn devices(functions: &Functions) -> Vec<Value> {
        let devices = functions.devices(Path::new(SOCKET));
        devices.iter().map(|device| serde_json::from_str(device).unwrap()).collect()
    }

    #[test]
    fn memory_is_parsed_and_bounded() {
        assert_eq!("256M".parse(), Ok(Memory(256)));
        assert_eq!("2G".parse(), Ok(Memory(2048)));
        assert_eq!("192".parse(), Ok(Memory(192)));
        for wrong in ["", "M", "x", "-1", "64M", "9999999G", "1T"] {
            assert!(wrong.parse::<Memory>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn large_memory_ends_above_4_gib() {
        for (mib, end) in [(128, 4096), (2815, 4096), (2816, 4864), (4096, 6144)] {
            assert_eq!(Memory::mib(mib).end(), end, "{mib} MiB");
        }
    }

    #[test]
    fn memory_holds_the_image_twice_and_the_kernel() {
        assert_eq!(Memory::mib(256).check_image(88 << 20), Ok(()));
        let refused = Memory::mib(256).check_image((88 << 20) + 1).unwrap_err();
        assert!(
            refused.starts_with("256 MiB are too little memory for a machine whose image has 89 MiB"),
            "{refused}"
        );
        assert!(refused.ends_with("(least 258)"), "{refused}");
        assert!(Memory::DEFAULT.check_image(u64::MAX).is_err());
    }

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

    #[test]
    fn more_than_eight_functions_use_several_slots() {
        let all = devices(&functions(true, 1..64));
        let places: Vec<&str> = all.iter().map(|device| device["addr"].as_str().unwrap()).collect();
        let expected: Vec<String> = (0..65).map(|at| format!("{:#x}.{}", 0x10 + at / 8, at % 8)).collect();
        assert_eq!(places, expected);
        // The last function is alone in its slot.
        let first = |at: usize| all[at]["multifunction"] == true;
        assert!((0..65).all(|at| first(at) == (at % 8 == 0 && at != 64)), "{all:#?}");
        assert_eq!(all[2]["socket"]["path"], "/run/card0.sock.peer0");
        assert_eq!(all[64]["socket"]["path"], "/run/card0.sock.peer62");
        let new = |slot, count| Functions::new(slot, true, vec![PathBuf::new(); count]).map(drop);
        assert_eq!((new(30, 6), new(23, 62)), (Ok(()), Ok(())));
        let said = "a card of 65 PCI functions in slot 23 and those behind it needs slot 31 (limit 30): take a lower one";
        assert_eq!((new(23, 63), new(30, 7).is_err()), (Err(said.to_owned()), true));
    }

    #[test]
    fn single_function_needs_no_slot() {
        let [device] = &devices(&functions(false, 0..0))[..] else { panic!("one device") };
        assert_eq!((&device["socket"]["path"], &device["addr"]), (&json!(SOCKET), &Value::Null));
    }

    fn machine(functions: Functions) -> Machine {
        let path = PathBuf::new;
        Machine {
            name: "vm0".into(),
            accelerator: Accelerator::Tcg,
            reboots: false,
            memory: Memory::mib(256),
            core: None,
            kernel: path(),
            initrd: path(),
            disk: None,
            system: None,
            append: String::new(),
            card: path(),
            functions,
            plugin: None,
            console: path(),
            console_log: path(),
            agent: path(),
            monitor: path(),
            more: Vec::new(),
        }
    }

    /// Returns all values of an option.
    fn behind(machine: &Machine, option: &str) -> Vec<String> {
        let words = machine.arguments();
        words.windows(2).filter(|pair| pair[0] == option).map(|pair| pair[1].clone()).collect()
    }

    #[test]
    fn express_memory_requires_two_possible_processors() {
        let mut machine = machine(functions(true, 0..0));
        assert_eq!(behind(&machine, "-smp"), ["1"]);
        machine.functions = functions(true, 0..1);
        assert_eq!(behind(&machine, "-smp"), ["1,maxcpus=2"]);
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
