//! What a lab file says. `hamlyn up` makes the same description from its flags.
//!
//! The comments are the descriptions in the schema and in docs/labs.md.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hamlyn_host::catalogue::Choice;
use hamlyn_lab::{Added, Memory, Name, Packages, Subnet};
use hamlyn_switch::Part;
use hamlyn_switch::bursts::QUANTUM;
use hamlyn_switch::mesh::Shape;
use hamlyn_switch::paths::MAX_PATHS;
use schemars::JsonSchema;
use serde::Deserialize;

use super::value::{
    AccelWord, Command, ExpressWord, LayoutWord, Mode, ModelName, SnoopWord, UserWord, VmmWord, models,
    optional_text, text, within,
};

/// Most machines of a lab.
pub(in super::super) const MACHINES: usize = 64;

/// Longest time of a run, in seconds: a day.
const DAY: u64 = 86_400;

const ALL: u64 = u32::MAX as u64;
const PATHS: u64 = MAX_PATHS as u64;

/// A lab: a switch, cards and virtual machines, and what runs in them.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(title = "A lab file of hamlyn", extend("required" = ["name", "machine"]))]
pub(in super::super) struct Description {
    /// Name of the lab, by which other commands find it: at most 20 small letters, digits and `-`
    #[serde(default, with = "optional_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = r"^[a-z][a-z0-9-]{0,19}$"))]
    pub(in super::super) name: Option<Name>,
    /// Range of addresses for a network over the cards, such as `10.7.0.0/24`, with a prefix of 16
    /// to 30 bits. The first machine has the first address, and machines know each other by name
    #[serde(default, with = "optional_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) ip: Option<Subnet>,
    /// Also link two machines by a virtio-net network, to compare: 192.0.2.1 and 192.0.2.2
    #[serde(default)]
    pub(in super::super) net: bool,
    /// The program that runs the machines
    #[serde(default)]
    pub(in super::super) vmm: VmmWord,
    /// Accelerator of the machines
    #[serde(default)]
    pub(in super::super) accel: AccelWord,
    /// How stores reach a card that snoops them
    #[serde(default)]
    pub(in super::super) snoop: SnoopWord,
    /// Programs for the machines' `/bin`: `FILE` or `FILE:NAME`, linked statically
    #[serde(default, deserialize_with = "programs")]
    #[schemars(with = "Vec<String>")]
    pub(in super::super) programs: Vec<Added>,
    /// How cards and switch run and forward packets
    #[serde(default)]
    pub(in super::super) fabric: Fabric,
    /// The machines, each with a card: 1 to 64
    #[serde(rename = "machine", default)]
    #[schemars(length(min = 1, max = MACHINES))]
    pub(in super::super) machines: Vec<Machine>,
    /// Programs to run in the machines, in this order
    #[serde(rename = "run", default)]
    pub(in super::super) runs: Vec<Run>,
    /// What must be true after the runs
    #[serde(rename = "expect", default)]
    pub(in super::super) expectations: Vec<Expect>,
}

/// How cards and switch run and forward packets.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(in super::super) struct Fabric {
    /// Processes: `auto` is one for all cards and the switch, with machines on cores of their own
    /// if there are enough; `isolated` is one for each card; `cores` is one, with machines on the
    /// cores that `cores` lists
    pub(in super::super) layout: LayoutWord,
    /// Cores of the host for the layout `cores`, each 0 to 1023: the first machine's first, reused
    /// from the first
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(range(max = 1023)))]
    pub(in super::super) cores: Vec<u16>,
    /// Paths of the switch to each card. With more than one, packets of a message overtake each
    /// other
    #[serde(deserialize_with = "within::<_, _, 1, PATHS>")]
    #[schemars(range(min = 1, max = PATHS))]
    pub(in super::super) paths: u16,
    /// Mesh of routers that packets go through, as `COLUMNSxROWS` of 1 to 256 each, instead of
    /// paths
    #[serde(with = "optional_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) mesh: Option<Shape>,
    /// Bytes of the parts into which longer packets are cut while several cards wait for one. 0 is
    /// never
    #[serde(deserialize_with = "within::<_, _, 0, ALL>")]
    #[schemars(range(min = 0, max = u32::MAX))]
    pub(in super::super) cutting: u32,
    /// Memory that each pair of machines shares: `shared` is one file, `isolated` a file for each
    /// pair
    pub(in super::super) express: ExpressWord,
    /// Bytes of each pair's express memory: 64K to 256M, a power of two
    #[serde(with = "text")]
    #[schemars(with = "String")]
    pub(in super::super) express_part: Part,
    /// More arguments for all cards: see `hamlyn card --help`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in super::super) card_arguments: Vec<String>,
}

impl Default for Fabric {
    fn default() -> Self {
        Fabric {
            layout: LayoutWord::default(),
            cores: Vec::new(),
            paths: 1,
            mesh: None,
            cutting: QUANTUM,
            express: ExpressWord::default(),
            express_part: Part::default(),
            card_arguments: Vec::new(),
        }
    }
}

/// A machine and its card.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(in super::super) struct Machine {
    /// Its name: at most 20 small letters, digits and `-`. The default is `vm` and its index
    #[serde(with = "optional_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = r"^[a-z][a-z0-9-]{0,19}$"))]
    pub(in super::super) name: Option<Name>,
    /// Its memory, in MiB, or with `M` or `G`: 128M to 1024G
    #[serde(with = "text")]
    #[schemars(with = "String")]
    pub(in super::super) memory: Memory,
    /// Model of its card. Models of one lab speak one protocol
    #[serde(with = "text")]
    #[schemars(with = "String", extend("enum" = models()))]
    pub(in super::super) model: ModelName,
    /// Settings of its card, by name, such as `packet-size = 1024`: `hamlyn models --json` lists
    /// them with unit and limits
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(in super::super) settings: BTreeMap<String, u32>,
    /// Rules by which its card misbehaves from the end of the boot on, as of `hamlyn fault`:
    /// `packet delay by=20ms rate=1000000` is a slow link to it
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in super::super) faults: Vec<String>,
    /// Seed of these rules
    #[serde(skip_serializing_if = "is_zero")]
    pub(in super::super) fault_seed: u64,
    /// Kernel instead of the prepared one
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) kernel: Option<PathBuf>,
    /// Initial RAM disk instead of the prepared one. Its boot is not waited for, and it can have
    /// neither `files` nor runs
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) initrd: Option<PathBuf>,
    /// Words for the kernel's command line
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(in super::super) append: String,
    /// Disk image that becomes the root, raw or qcow2. Writes to it do not last
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) image: Option<PathBuf>,
    /// Debian packages to install. The first time takes half a minute and needs the network
    #[serde(deserialize_with = "packages")]
    #[schemars(with = "Vec<String>")]
    pub(in super::super) packages: Option<Packages>,
    /// Additional words for QEMU
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in super::super) qemu: Vec<String>,
    /// Files to copy into the machine after its boot
    pub(in super::super) files: Vec<Copy>,
}

impl Default for Machine {
    fn default() -> Self {
        Machine {
            name: None,
            memory: Memory::DEFAULT,
            model: ModelName::default(),
            settings: BTreeMap::new(),
            faults: Vec::new(),
            fault_seed: 0,
            kernel: None,
            initrd: None,
            append: String::new(),
            image: None,
            packages: None,
            qemu: Vec::new(),
            files: Vec::new(),
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A file to copy into a machine.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(in super::super) struct Copy {
    /// The file on this host
    pub(in super::super) source: PathBuf,
    /// Its path in the machine, from the root. Missing folders are made
    pub(in super::super) destination: String,
    /// Its mode, in octal digits. The default is the source's
    #[serde(default, with = "optional_text", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = "^[0-7]{3,4}$"))]
    pub(in super::super) mode: Option<Mode>,
}

/// A program that runs in a machine.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(in super::super) struct Run {
    /// Name of the machine
    pub(in super::super) machine: String,
    /// A list of words, or a text for the machine's shell
    pub(in super::super) command: Command,
    /// The user that runs it
    #[serde(default)]
    pub(in super::super) user: UserWord,
    /// Whether the next run begins while this one runs
    #[serde(default)]
    pub(in super::super) background: bool,
    /// Text of 1 to 1,024 bytes in the output after which the next run begins, for a run in the
    /// background
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) ready: Option<String>,
    /// Seconds until it ends; in the background until it is ready, and again after the last run
    #[serde(default = "minute", deserialize_with = "within::<_, _, 1, DAY>")]
    #[schemars(range(min = 1, max = DAY))]
    pub(in super::super) timeout: u64,
    /// Exit status that is expected, 128 and the number if a signal ends it. The default is 0. In
    /// the background, a run without `status` and `output` goes on until the lab ends
    #[serde(default, deserialize_with = "status", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u8")]
    pub(in super::super) status: Option<u8>,
    /// Text of 1 to 1,024 bytes that standard output or standard error must contain
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) output: Option<String>,
}

/// An expectation after the runs: a counter's value, or kernels without warnings.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(in super::super) struct Expect {
    /// A machine's name, or `switch`. The default is all machines, and the sum of their counters
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) of: Option<String>,
    /// Counter of the card or the switch, as `hamlyn stat` names it after `cards.card0.` or
    /// `switch.`. With `*` at its end, the sum of all counters that begin so
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) counter: Option<String>,
    /// The counter's value
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub(in super::super) equals: Option<u64>,
    /// The counter's smallest value
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub(in super::super) at_least: Option<u64>,
    /// The counter's largest value
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub(in super::super) at_most: Option<u64>,
    /// Whether the kernels' logs must have no warnings, instead of a counter
    #[serde(default)]
    pub(in super::super) no_kernel_warnings: bool,
}

fn minute() -> u64 {
    60
}

impl Machine {
    /// Returns its card's model and settings. Fails with the name of a setting that it does not
    /// have.
    pub(in super::super) fn choice(&self) -> Result<Choice, (&str, String)> {
        let mut choice = Choice::of(self.model.0);
        for (name, value) in &self.settings {
            let known = self.model.0.settings.iter().find(|known| known.name == name);
            let setting = known.ok_or_else(|| {
                let all: Vec<&str> = self.model.0.settings.iter().map(|known| known.name).collect();
                let model = self.model;
                (name.as_str(), format!("model {model} has no setting {name}; it has: {}", all.join(", ")))
            })?;
            choice.set(setting.name, *value).map_err(|error| (name.as_str(), error.to_string()))?;
        }
        Ok(choice)
    }
}

fn programs<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Added>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let programs: Result<_, String> = texts.iter().map(|text| text.parse()).collect();
    programs.map_err(serde::de::Error::custom)
}

fn packages<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Packages>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    names.join(",").parse().map(Some).map_err(serde::de::Error::custom)
}

fn status<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u8>, D::Error> {
    within::<_, _, 0, 255>(deserializer).map(Some)
}
