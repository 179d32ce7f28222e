//! The build id of a kernel module, which linkers compute from the contents of the file.

use std::fs;
use std::path::Path;

use anyhow::Context;
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, SectionHeader};

/// Name of the section, and of the file in `/sys/module/NAME/notes` with the same bytes.
pub(super) const NOTE: &str = ".note.gnu.build-id";

/// Reads the build-id note of a module's file, as hexadecimal digits.
pub(super) fn of(module: &Path) -> anyhow::Result<String> {
    let file = fs::read(module)
        .with_context(|| format!("cannot read the module {}: run ./scripts/prepare", module.display()))?;
    let note = note(&file).with_context(|| format!("{} has no build id", module.display()))?;
    Ok(note.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn note(file: &[u8]) -> Option<&[u8]> {
    let elf = FileHeader64::<Endianness>::parse(file).ok()?;
    let endian = elf.endian().ok()?;
    let sections = elf.sections(endian, file).ok()?;
    let (_, section) = sections.section_by_name(endian, NOTE.as_bytes())?;
    section.data(endian, file).ok()
}
