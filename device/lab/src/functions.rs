//! The PCI functions of a card, as QEMU's devices.

use std::path::{Path, PathBuf};

use hamlyn_host::rundir::{doorbell_path, express_paths};
use serde_json::{Value, json};

/// How long QEMU waits for the answer to an access, in milliseconds.
///
/// A card process that is stopped for longer is lost to its machine, because a late answer corrupts
/// the stream permanently. The default of 5 s is short. A machine whose card is killed during an
/// access hangs for this long.
const MESSAGE_TIMEOUT: u32 = 60_000;

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

    pub(super) fn new(slot: u8, doorbells: bool, express: Vec<PathBuf>) -> Result<Functions, String> {
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

    /// Whether some of them have express memory.
    pub(super) fn have_express(&self) -> bool {
        !self.express.is_empty()
    }

    /// Returns the functions as QEMU's devices.
    pub(super) fn devices(&self, socket: &Path) -> Vec<String> {
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

/// Returns a function of the card as QEMU's device, with `more` properties.
fn function(socket: &Path, mut more: Value) -> String {
    more["driver"] = "vfio-user-pci".into();
    more["socket"] = json!({ "path": socket, "type": "unix" });
    more["x-msg-timeout"] = MESSAGE_TIMEOUT.into();
    more.to_string()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const SOCKET: &str = "/run/card0.sock";

    /// Returns functions with the given range of express functions.
    pub(in super::super) fn functions(doorbells: bool, express: std::ops::Range<usize>) -> Functions {
        let express = express_paths(Path::new(SOCKET)).collect::<Vec<_>>()[express].to_vec();
        Functions::new(CARD_SLOT, doorbells, express).unwrap()
    }

    fn devices(functions: &Functions) -> Vec<Value> {
        let devices = functions.devices(Path::new(SOCKET));
        devices.iter().map(|device| serde_json::from_str(device).unwrap()).collect()
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
}
