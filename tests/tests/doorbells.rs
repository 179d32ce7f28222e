//! The card's second function over the raw protocol, from the view of a third-party client: it has
//! doorbells and nothing else.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hamlyn_abi::family::command::{
    ULN_COMMAND_BODY, ULN_REG_COMMAND_GO, ULN_REG_COMMAND_STATUS, ULN_STATUS_OK,
};
use hamlyn_abi::family::control::{ULN_CONTROL_ENABLE, ULN_CONTROL_RESET, ULN_REG_CONTROL};
use hamlyn_abi::family::identity::{ULN_PCI_DOORBELL_CLASS, ULN_PCI_VENDOR, ULN_REG_SCRATCH};
use hamlyn_abi::hamlyn::command::HAMLYN_COMMAND_OPEN_TERMINUS;
use hamlyn_abi::hamlyn::identity::HAMLYN_PCI_DOORBELL;
use hamlyn_abi::hamlyn::window::{HAMLYN_DOORBELL_SIZE, HAMLYN_WINDOW_SIZE, HAMLYN_WINDOW_TAIL};
use hamlyn_lab::Lab;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use vfio_user::Client;

const REGISTERS: u32 = 0;
const WINDOWS: u32 = 2;
const CONFIG: u32 = 7;
const MSIX: u32 = 2;

/// The open terminus, and a closed one.
const OPEN: u32 = 5;
const CLOSED: u32 = 6;
/// The last terminus of a card with the default number of them.
const LAST: u32 = 63;

/// A client of the card's own socket that acts as its driver.
struct Host {
    client: Client,
    memory: File,
}

impl Host {
    /// Lends the card the command page, and the page after it.
    fn attach(path: &std::path::Path) -> Result<Self> {
        let mut client = Client::new(path).ok().context("no card")?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = File::from(memfd_create("host", flags)?);
        memory.set_len(8192)?;
        fcntl_add_seals(&memory, SealFlags::SHRINK)?;
        client.dma_map(0, 0, 8192, memory.as_raw_fd()).ok().context("the memory is refused")?;
        write(&mut client, CONFIG, 4, 6)?;
        write(&mut client, REGISTERS, ULN_REG_CONTROL.into(), ULN_CONTROL_ENABLE)?;
        Ok(Self { client, memory })
    }

    /// Opens a terminus, whose status words are in the second page.
    fn open_terminus(&mut self, index: u32) -> Result<()> {
        let command = [HAMLYN_COMMAND_OPEN_TERMINUS, index].map(u32::to_le_bytes).concat();
        self.memory.write_all_at(&command, 0)?;
        let body = [4096_u64, 1].map(u64::to_le_bytes).concat();
        self.memory.write_all_at(&body, ULN_COMMAND_BODY.into())?;
        write(&mut self.client, REGISTERS, ULN_REG_COMMAND_GO.into(), 1)?;
        let status = read(&mut self.client, REGISTERS, ULN_REG_COMMAND_STATUS.into())?;
        ensure!(status == ULN_STATUS_OK, "status {status}");
        Ok(())
    }

    /// Posts more requests than a terminus takes, and does not ring its doorbell.
    fn overrun(&mut self, terminus: u32) -> Result<()> {
        let window = u64::from(terminus) * u64::from(HAMLYN_WINDOW_SIZE);
        write(&mut self.client, WINDOWS, window + u64::from(HAMLYN_WINDOW_TAIL), 1000)
    }
}

fn read(client: &mut Client, region: u32, offset: u64) -> Result<u32> {
    let mut word = [0; 4];
    client.region_read(region, offset, &mut word).ok().context("no answer to a read")?;
    Ok(u32::from_le_bytes(word))
}

fn write(client: &mut Client, region: u32, offset: u64, value: u32) -> Result<()> {
    client.region_write(region, offset, &value.to_le_bytes()).ok().context("no answer to a write")
}

/// Returns the socket of a card's second function.
fn doorbells(lab: &Lab, card: usize) -> Result<PathBuf> {
    let mut path = lab.card_socket(card)?.to_owned().into_os_string();
    path.push(".doorbell");
    Ok(path.into())
}

fn ring(client: &mut Client, terminus: u32) -> Result<()> {
    write(client, 0, u64::from(terminus) * u64::from(HAMLYN_DOORBELL_SIZE), 1)
}

fn counter(lab: &Lab, group: &str, name: &str) -> Result<u64> {
    lab.card_counters(0)?[group][name].as_u64().with_context(|| format!("no counter {name}"))
}

/// Waits for a counter of the card, which polls its termini at its own pace.
fn until(lab: &Lab, group: &str, name: &str, wanted: u64) -> Result<()> {
    for _ in 0..600 {
        if counter(lab, group, name)? == wanted {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("{name} is {}, not {wanted}", counter(lab, group, name)?)
}

#[test]
fn second_function_has_only_doorbells() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(1).card_args(["--termini", "16"]).start()?;
    let mut client = Client::new(&doorbells(&lab, 0)?).ok().context("no second function")?;
    let ids = u32::from(HAMLYN_PCI_DOORBELL) << 16 | u32::from(ULN_PCI_VENDOR);
    assert_eq!(read(&mut client, CONFIG, 0)?, ids);
    assert_eq!(read(&mut client, CONFIG, 8)? >> 8, ULN_PCI_DOORBELL_CLASS);
    let regions: Vec<_> =
        (0..6).map(|index| client.region(index).context("no region")).collect::<Result<_>>()?;
    let sizes: Vec<_> = regions.iter().map(|region| region.size).collect();
    assert_eq!(sizes, [16 * u64::from(HAMLYN_DOORBELL_SIZE), 0, 0, 0, 0, 0]);
    assert!(
        regions.iter().all(|region| region.file_offset.is_none()),
        "posting ends with the first mapped page"
    );
    assert_eq!(client.get_irq_info(MSIX).ok().context("no answer")?.count, 0);
    Ok(())
}

#[test]
fn doorbells_of_both_functions_wake_same_terminus() -> Result<()> {
    for one_process in [false, true] {
        let lab = Lab::builder().vms(0).spare_cards(1).one_process(one_process);
        let lab = lab.card_args(["--handshake", "0"]).start()?;
        let mut second = Client::new(&doorbells(&lab, 0)?).ok().context("no second function")?;
        // A doorbell without a machine is counted, too.
        ring(&mut second, OPEN)?;
        until(&lab, "card", "doorbells", 1)?;
        let mut host = Host::attach(lab.card_socket(0)?)?;
        host.open_terminus(OPEN)?;
        host.overrun(OPEN)?;
        let before = counter(&lab, "card", "refused_overrun")?;
        ring(&mut second, CLOSED)?;
        ring(&mut second, LAST)?;
        until(&lab, "card", "doorbells", 3)?;
        assert_eq!(counter(&lab, "card", "refused_overrun")?, before, "its doorbell did not ring");
        ring(&mut second, OPEN)?;
        until(&lab, "card", "refused_overrun", before + 1)?;
    }
    Ok(())
}

#[test]
fn second_function_client_can_only_ring() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(1).card_args(["--handshake", "0"]).start()?;
    let mut host = Host::attach(lab.card_socket(0)?)?;
    write(&mut host.client, REGISTERS, ULN_REG_SCRATCH.into(), 0x1996)?;
    let mut second = Client::new(&doorbells(&lab, 0)?).ok().context("no second function")?;
    for offset in [0, u64::from(HAMLYN_DOORBELL_SIZE), 8] {
        assert_eq!(read(&mut second, 0, offset)?, !0x1996, "whose it is can be told");
    }
    write(&mut second, CONFIG, 4, 6)?;
    write(&mut second, 0, ULN_REG_CONTROL.into(), ULN_CONTROL_RESET)?;
    second.reset().ok().context("no answer to a reset")?;
    drop(second);
    assert_eq!(read(&mut host.client, REGISTERS, ULN_REG_CONTROL.into())?, ULN_CONTROL_ENABLE);
    assert_eq!(read(&mut host.client, REGISTERS, ULN_REG_SCRATCH.into())?, !0x1996);
    host.open_terminus(OPEN)
}
