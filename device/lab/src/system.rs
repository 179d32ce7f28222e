//! A disk image that the machines have as their root, in place of the small system in memory.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use anyhow::{Context, Error, bail, ensure};

use super::Kit;
use super::qemu::escape;

/// Word for the kernel's command line of a machine with an image.
pub(super) const WORD: &str = "hamlyn.image";

/// What a qcow2 image begins with.
const QCOW2: [u8; 4] = *b"QFI\xfb";

/// A disk image with an ext4 file system, on the disk itself or in its first partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct System {
    file: PathBuf,
    format: &'static str,
}

impl System {
    /// Opens an image, raw or qcow2.
    pub fn open(file: &Path) -> anyhow::Result<System> {
        let mut magic = Vec::new();
        File::open(file)
            .and_then(|opened| opened.take(QCOW2.len() as u64).read_to_end(&mut magic))
            .with_context(|| format!("cannot read the image {}", file.display()))?;
        let format = if magic == QCOW2 { "qcow2" } else { "raw" };
        Ok(System { file: file.canonicalize()?, format })
    }

    /// Returns the image with these packages of Debian. The first time it is made, which takes half
    /// a minute and needs the network.
    pub fn of_packages(kit: &Kit, packages: &Packages) -> anyhow::Result<System> {
        let Some(maker) = &kit.packages else {
            bail!("the kit does not name images/packages: run ./scripts/prepare")
        };
        let made = Command::new(maker)
            .args(&packages.0)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run {}", maker.display()))?;
        let said = String::from_utf8_lossy(&made.stderr);
        ensure!(
            made.status.success(),
            "cannot make an image of the packages {}:\n{said}",
            packages.0.join(", ")
        );
        let path = String::from_utf8_lossy(&made.stdout);
        System::open(Path::new(path.trim_end()))
    }

    /// Returns QEMU's drive. What a machine writes goes to a temporary file, which ends with it.
    pub(super) fn drive(&self) -> String {
        let file = escape(&self.file.to_string_lossy());
        format!("if=virtio,format={},snapshot=on,file={file}", self.format)
    }
}

/// Names of Debian's packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packages(Vec<String>);

impl Packages {
    /// Reads a list with a name on each line.
    pub fn of_lines(text: &str) -> anyhow::Result<Packages> {
        Packages::of(text.lines()).map_err(Error::msg)
    }

    fn of<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Result<Packages, String> {
        let is_inner = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'+' | b'.' | b'-');
        let is_name = |name: &&str| {
            name.len() >= 2 && name.bytes().all(is_inner) && name.as_bytes()[0].is_ascii_alphanumeric()
        };
        match names.clone().find(|name| !is_name(name)) {
            Some(wrong) => Err(format!("{wrong:?} is not the name of a package, such as iperf3")),
            None => Ok(Packages(names.map(str::to_owned).collect())),
        }
    }
}

impl FromStr for Packages {
    type Err = String;

    /// Parses names with commas between them.
    fn from_str(text: &str) -> Result<Packages, String> {
        Packages::of(text.split(','))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_packages_are_checked() {
        let packages = |text: &str| text.parse::<Packages>();
        assert_eq!(packages("g++,libc6-dev"), Ok(Packages(vec!["g++".into(), "libc6-dev".into()])));
        assert_eq!(Packages::of_lines("g++\nlibc6-dev\n").ok(), packages("g++,libc6-dev").ok());
        for wrong in ["", "a,,b", "x", "-y", "nginx redis", "../x", "Iperf"] {
            assert!(packages(wrong).unwrap_err().contains("is not the name of a package"), "{wrong}");
        }
    }

    #[test]
    fn format_is_read_from_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let [short, qcow2] = ["short", "a,b"].map(|name| dir.path().join(name));
        std::fs::write(&short, "x").unwrap();
        std::fs::write(&qcow2, b"QFI\xfb\0\0\0\x03").unwrap();
        let drive = |file: &Path| System::open(file).unwrap().drive();
        assert!(drive(&short).starts_with("if=virtio,format=raw,snapshot=on,file=/"));
        assert!(drive(&qcow2).contains("format=qcow2") && drive(&qcow2).ends_with("a,,b"));
        let missing = System::open(&dir.path().join("missing")).unwrap_err().to_string();
        assert!(missing.contains("cannot read the image"), "{missing}");
    }
}
