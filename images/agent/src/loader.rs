//! Finds the program that another program needs before its first instruction: its dynamic loader,
//! or the interpreter of a script.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};

/// What a program needs, with its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Needs {
    /// The dynamic loader that an ELF file names.
    Loader(PathBuf),
    /// The interpreter in the first line of a script.
    Interpreter(PathBuf),
}

/// The longest first line of a script that Linux reads, in bytes.
const FIRST_LINE: usize = 256;

impl Needs {
    /// Parses a program's bytes. Returns `None` if the kernel runs the program alone, or does not
    /// know its format.
    pub fn of(program: &[u8]) -> Option<Needs> {
        if let Some(line) = program.strip_prefix(b"#!") {
            let line = line[..line.len().min(FIRST_LINE)].split(|byte| *byte == b'\n').next()?.trim_ascii();
            let path = line.split(u8::is_ascii_whitespace).next().filter(|path| !path.is_empty())?;
            return Some(Needs::Interpreter(path_of(path)));
        }
        let elf = FileHeader64::<Endianness>::parse(program).ok()?;
        let endian = elf.endian().ok()?;
        let headers = elf.program_headers(endian, program).ok()?;
        let loader = headers.iter().find_map(|header| header.interpreter(endian, program).ok().flatten())?;
        Some(Needs::Loader(path_of(loader)))
    }

    /// Returns the path where it must be.
    pub fn path(&self) -> &PathBuf {
        match self {
            Needs::Loader(path) | Needs::Interpreter(path) => path,
        }
    }
}

fn path_of(bytes: &[u8]) -> PathBuf {
    OsString::from(OsStr::from_bytes(bytes)).into()
}

/// Prints what it is, and what to do if it is missing.
impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Needs::Loader(path) => write!(
                f,
                "it needs the dynamic loader {}, which is not there: link it statically (docs/your-program.md)",
                path.display()
            ),
            Needs::Interpreter(path) => {
                write!(f, "it needs the interpreter {}, which is not there", path.display())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an ELF file with a header and one program header, which names a loader.
    fn dynamic(loader: &[u8]) -> Vec<u8> {
        let mut elf = vec![0; 120];
        elf[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
        // Kind, machine, version; then the offset, size and number of the program headers.
        for (at, value) in [(16, 3), (18, 62), (20, 1), (32, 64), (52, 64), (54, 56), (56, 1)] {
            elf[at] = value;
        }
        // PT_INTERP, at 120.
        for (at, value) in [(0, 3), (8, 120), (32, loader.len() as u8)] {
            elf[64 + at] = value;
        }
        elf.extend(loader);
        elf
    }

    #[test]
    fn a_program_names_its_loader() {
        let loader = Needs::of(&dynamic(b"/lib64/ld.so\0"));
        assert_eq!(loader, Some(Needs::Loader("/lib64/ld.so".into())));
        let said = loader.unwrap().to_string();
        assert!(said.contains("dynamic loader /lib64/ld.so") && said.contains("statically"), "{said}");
        // Truncated or inconsistent files are not recognized.
        for length in [0, 4, 63, 100, 125] {
            assert_eq!(Needs::of(&dynamic(b"/lib64/ld.so\0")[..length]), None, "{length}");
        }
    }

    #[test]
    fn a_script_names_its_interpreter() {
        for script in ["#!/bin/bash\necho", "#! /bin/bash -e\n", "#!/bin/bash", "#!\t/bin/bash\r\n"] {
            let needs = Needs::of(script.as_bytes());
            assert_eq!(needs, Some(Needs::Interpreter("/bin/bash".into())), "{script:?}");
        }
        for other in ["", "#", "#!", "#!\n/bin/sh", "# text", "text"] {
            assert_eq!(Needs::of(other.as_bytes()), None, "{other:?}");
        }
    }
}
