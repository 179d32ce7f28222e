//! A guest image with additional files: a second archive after the first, which the kernel unpacks
//! over it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, bail};
use hamlyn_agent::loader::Needs;

/// A file of the host that becomes a program in a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// Path on the host.
    file: PathBuf,
    /// Name in the guest's `/bin`.
    name: String,
}

impl Added {
    /// Returns the path on the host.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Makes the path on the host absolute. It is relative to `folder`.
    pub fn resolve(&mut self, folder: &Path) {
        self.file = folder.join(&self.file);
    }

    /// Returns its name in the guest.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl FromStr for Added {
    type Err = String;

    /// Parses `FILE` or `FILE:NAME`.
    fn from_str(text: &str) -> Result<Added, String> {
        let (file, name) = match text.rsplit_once(':') {
            Some((file, name)) if !name.contains('/') => (Path::new(file), Some(name)),
            _ => (Path::new(text), None),
        };
        let name = name.or_else(|| file.file_name().and_then(|name| name.to_str())).unwrap_or_default();
        if file.as_os_str().is_empty() || matches!(name, "" | "." | "..") {
            return Err(format!("{text:?} is not FILE or FILE:NAME"));
        }
        Ok(Added { file: file.into(), name: name.to_owned() })
    }
}

/// The longest file that an archive can hold, in bytes: its size has 8 hexadecimal digits.
const LONGEST: u64 = u32::MAX as u64;

/// The length of an entry's header, in bytes.
const HEADER: usize = 110;

/// Mask of the file type in a mode, and the type of a symbolic link.
const FORMAT: u32 = 0o170_000;
const LINK: u32 = 0o120_000;

/// Mode of a program, and of the folder that contains it.
const PROGRAM: u32 = 0o100_755;
const FOLDER: u32 = 0o040_755;

/// Writes the image `base` with these programs to the new file `image`.
pub(super) fn extend(base: &Path, added: &[Added], image: &Path) -> anyhow::Result<()> {
    fs::copy(base, image)
        .with_context(|| format!("cannot copy {} to {}", base.display(), image.display()))?;
    let file = File::options().append(true).open(image);
    let mut file = file.with_context(|| format!("cannot write to {}", image.display()))?;
    let padding = file.metadata()?.len().next_multiple_of(4) - file.metadata()?.len();
    file.write_all(&[0; 3][..padding as usize])?;
    entry(&mut file, "bin", FOLDER, &[])?;
    for Added { file: from, name } in added {
        let found = fs::metadata(from).with_context(|| format!("cannot add {}", from.display()))?;
        if !found.is_file() || found.len() > LONGEST {
            bail!("cannot add {}: it is not a file of at most {LONGEST} bytes", from.display());
        }
        let bytes = fs::read(from).with_context(|| format!("cannot add {}", from.display()))?;
        if let Some(needs) = Needs::of(&bytes).filter(|needs| !may_have(base, added, needs.path())) {
            bail!("cannot add {}: {needs}", from.display());
        }
        entry(&mut file, &format!("bin/{name}"), PROGRAM, &bytes)
            .with_context(|| format!("cannot write to {}", image.display()))?;
    }
    entry(&mut file, "TRAILER!!!", 0, &[]).with_context(|| format!("cannot write to {}", image.display()))
}

/// Returns whether the image `base` with these programs may have a file. `false` means that it
/// certainly has not.
fn may_have(base: &Path, added: &[Added], path: &Path) -> bool {
    let Ok(path) = path.strip_prefix("/") else { return true };
    let is_added = |added: &Added| path == Path::new("bin").join(&added.name);
    if added.iter().any(is_added) {
        return true;
    }
    let Some(modes) = fs::read(base).ok().and_then(|image| modes(&image)) else { return true };
    let is_link = |folder: &Path| modes.get(folder).is_some_and(|mode| mode & FORMAT == LINK);
    // If a folder is a link, the file has another name.
    modes.contains_key(path) || path.ancestors().skip(1).any(is_link)
}

/// Returns the names in an image with their modes, or `None` if it does not consist of uncompressed
/// archives.
fn modes(image: &[u8]) -> Option<HashMap<PathBuf, u32>> {
    let mut modes = HashMap::new();
    let mut at = 0;
    loop {
        // Archives follow each other, with zeros between them.
        at += image.get(at..)?.iter().take_while(|byte| **byte == 0).count();
        if at == image.len() {
            return Some(modes);
        }
        let header = image.get(at..at + HEADER)?;
        if !matches!(&header[..6], b"070701" | b"070702") {
            return None;
        }
        let field = |index: usize| {
            let digits = std::str::from_utf8(&header[6 + 8 * index..14 + 8 * index]).ok()?;
            usize::from_str_radix(digits, 16).ok()
        };
        let (mode, size, name_size) = (field(1)?, field(6)?, field(11)?);
        let name = image.get(at + HEADER..at + HEADER + name_size.checked_sub(1)?)?;
        let name = PathBuf::from(String::from_utf8_lossy(name).into_owned());
        modes.insert(name.strip_prefix("./").unwrap_or(&name).to_owned(), mode as u32);
        let data = (HEADER + name_size).next_multiple_of(4) + size;
        at += data.next_multiple_of(4);
        // The last entry of an archive may lack its padding.
        at = at.min(image.len());
    }
}

/// Writes one entry of a cpio archive in the kernel's newc format: header, name and contents,
/// padded to 4 bytes each.
fn entry(out: &mut impl Write, name: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let (links, size, name_size) = (1, bytes.len() as u32, name.len() as u32 + 1);
    // Order of the fields: inode, mode, user, group, links, time, size, device (4), length of the
    // name, checksum.
    let fields = [0, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0];
    let mut header = String::from("070701");
    header.extend(fields.iter().map(|field| format!("{field:08x}")));
    header.push_str(name);
    header.push('\0');
    for part in [header.as_bytes(), bytes] {
        out.write_all(part)?;
        out.write_all(&[0; 3][..part.len().next_multiple_of(4) - part.len()])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_name_is_optional() {
        let added = |text: &str| text.parse::<Added>().map(|added| (added.file, added.name));
        assert_eq!(added("a/hello"), Ok(("a/hello".into(), "hello".into())));
        assert_eq!(added("a/hello:hi"), Ok(("a/hello".into(), "hi".into())));
        assert_eq!(added("a:b/hello"), Ok(("a:b/hello".into(), "hello".into())));
        for wrong in ["", ":x", "a:", "a:..", "/"] {
            assert!(added(wrong).unwrap_err().contains("is not FILE or FILE:NAME"), "{wrong}");
        }
    }

    /// Returns an archive with a shell, and a folder that is a link.
    fn archive() -> Vec<u8> {
        let mut archive = vec![0; 4];
        for (name, mode, bytes) in [
            ("bin", FOLDER, &b""[..]),
            ("bin/sh", PROGRAM, b"a shell"),
            ("sbin", LINK | 0o777, b"bin"),
            ("TRAILER!!!", 0, b""),
        ] {
            entry(&mut archive, name, mode, bytes).unwrap();
        }
        archive
    }

    #[test]
    fn a_program_whose_interpreter_is_missing_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let base = [archive(), vec![0; 508], archive()].concat();
        fs::write(path("base"), &base).unwrap();
        let add = |interpreter: &str, more: &[&str]| {
            fs::write(path("script"), format!("#!{interpreter}\n")).unwrap();
            fs::write(path("bash"), "bash").unwrap();
            let added = [&["script"], more].concat();
            let added: Vec<Added> =
                added.iter().map(|name| path(name).to_str().unwrap().parse().unwrap()).collect();
            extend(&path("base"), &added, &path("image")).map_err(|error| format!("{error:#}"))
        };
        let error = add("/bin/bash", &[]).unwrap_err();
        assert!(error.contains("script: it needs the interpreter /bin/bash, which is not there"), "{error}");
        assert_eq!(add("/bin/bash", &["bash"]), Ok(()));
        assert_eq!(add("/bin/sh", &[]), Ok(()));
        assert_eq!(add("/sbin/whatever", &[]), Ok(()), "the folder is a link");
        // Images that cannot be read are not checked.
        for other in [&b"\x28\xb5\x2f\xfd compressed"[..], &base[..base.len() - 200]] {
            fs::write(path("base"), other).unwrap();
            assert_eq!(add("/bin/bash", &[]), Ok(()));
        }
    }

    #[test]
    fn archive_equals_that_of_cpio() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("base"), "12345").unwrap();
        fs::write(path("hello"), "hello").unwrap();
        let added = [format!("{}:hi", path("hello").display()).parse().unwrap()];
        extend(&path("base"), &added, &path("image")).unwrap();
        let image = fs::read_to_string(path("image")).unwrap();
        let head = |mode: &str, size: u32, name_size: u32| {
            format!(
                "07070100000000{mode}0000000000000000000000010000000000000{size:03x}{0}{name_size:08x}00000000",
                "0".repeat(32)
            )
        };
        let due = [
            "12345\0\0\0".to_owned(),
            head("000041ed", 0, 4) + "bin\0\0\0",
            head("000081ed", 5, 7) + "bin/hi\0\0\0\0hello\0\0\0",
            head("00000000", 0, 11) + "TRAILER!!!\0\0\0\0",
        ];
        assert_eq!(image.replace('\0', "."), due.concat().replace('\0', "."));
        let missing = ["nothing".parse().unwrap()];
        let error = format!("{:#}", extend(&path("base"), &missing, &path("image")).unwrap_err());
        assert!(error.starts_with("cannot add nothing: "), "{error}");
    }
}
