//! Driver operations that all card models share: describing areas by page lists, and running
//! commands through the command page.

use hamlyn_abi::family::area::UlnArea;
use hamlyn_abi::family::command::{
    ULN_COMMAND_BODY, ULN_REG_COMMAND_GO, ULN_REG_COMMAND_PAGE, ULN_STATUS_OK, UlnCommand,
};
use hamlyn_abi::family::control::{ULN_CONTROL_ENABLE, ULN_REG_CONTROL};
use zerocopy::{FromZeros, Immutable, IntoBytes};

/// Bytes in a page.
const PAGE: u64 = 4096;
/// Number of addresses in one page of a list.
const LIST: u64 = PAGE / 8;

/// Reason why a card refused a command, as read from the command page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// `ULN_STATUS_*`.
    pub status: u32,
    /// The value that was refused.
    pub value: u64,
    /// The limit for that value.
    pub limit: u64,
}

/// Writes the page lists of an area of `length` bytes that starts at byte `first` of its first
/// page.
///
/// `list` allocates a page for a list. `page` returns the address of each page of the area by its
/// number. `put` writes to host memory.
pub fn list_pages(
    length: u64,
    first: u32,
    mut list: impl FnMut() -> u64,
    mut page: impl FnMut(u64) -> u64,
    mut put: impl FnMut(u64, &[u8]),
) -> UlnArea {
    let directory = list();
    let mut addresses = 0;
    for index in 0..(length + u64::from(first)).div_ceil(PAGE) {
        if index % LIST == 0 {
            addresses = list();
            put(directory + index / LIST * 8, &addresses.to_le_bytes());
        }
        put(addresses + index % LIST * 8, &page(index).to_le_bytes());
    }
    UlnArea { directory, length, first, reserved: 0 }
}

/// A host whose driver runs commands.
pub trait Commands {
    /// Error of a failed register store.
    type Error;

    /// Returns the address of the command page.
    fn command_page(&self) -> u64;

    /// Writes to host memory.
    fn put(&self, address: u64, bytes: &[u8]);

    /// Reads host memory.
    fn get(&self, address: u64, into: &mut [u8]);

    /// Stores `value` to a register of BAR 0 with an access of `width` bytes.
    fn store(&mut self, register: u32, width: u8, value: u64) -> Result<(), Self::Error>;

    /// Powers on the card: sets the address of the command page and enables packet reception.
    fn enable(&mut self) -> Result<(), Self::Error> {
        self.store(ULN_REG_COMMAND_PAGE, 8, self.command_page())?;
        self.store(ULN_REG_CONTROL, 4, ULN_CONTROL_ENABLE.into())
    }

    /// Runs a command. The inner result is the card's answer.
    fn command(
        &mut self,
        opcode: u32,
        index: u32,
        body: &(impl IntoBytes + Immutable),
    ) -> Result<Result<(), Refusal>, Self::Error> {
        let page = self.command_page();
        self.put(page, UlnCommand { opcode, index, ..Default::default() }.as_bytes());
        self.put(page + u64::from(ULN_COMMAND_BODY), body.as_bytes());
        self.store(ULN_REG_COMMAND_GO, 4, 1)?;
        let mut done = UlnCommand::new_zeroed();
        self.get(page, done.as_mut_bytes());
        let UlnCommand { status, value, limit, .. } = done;
        Ok(if status == ULN_STATUS_OK { Ok(()) } else { Err(Refusal { status, value, limit }) })
    }
}
