//! A copy is written into an existing target, like with cp, in both directions.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Output, Stdio};
use std::thread::{self, sleep};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::Lab;

/// Which of the two names is in the machine.
#[derive(Debug, Clone, Copy)]
enum Way {
    In,
    Out,
}

const WAYS: [Way; 2] = [Way::In, Way::Out];

/// Returns a path as a name in the machine.
fn there(path: &Path) -> OsString {
    let mut name = OsString::from("vm0:");
    name.push(path);
    name
}

impl Way {
    fn names(self, from: &Path, to: &Path) -> [OsString; 2] {
        match self {
            Way::In => [from.into(), there(to)],
            Way::Out => [there(from), to.into()],
        }
    }

    fn copy(self, lab: &Lab, from: &Path, to: &Path) -> Output {
        lab.command("cp").arg("--").args(self.names(from, to)).output().unwrap()
    }

    fn copied(self, lab: &Lab, from: &Path, to: &Path) {
        let output = self.copy(lab, from, to);
        assert!(output.status.success() && output.stderr.is_empty(), "{self:?}: {output:?}");
    }

    fn fails(self, lab: &Lab, from: &Path, to: &Path, why: &str) {
        let output = self.copy(lab, from, to);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(why), "{self:?}: {output:?}");
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap();
    u32::from_str_radix(mask.trim(), 8).unwrap()
}

#[test]
fn an_existing_file_keeps_inode_and_mode() {
    for way in WAYS {
        let lab = Lab::open();
        let [from, to, other] = ["from", "to", "other"].map(|name| lab.path(name));
        fs::write(&from, "new").unwrap();
        set_mode(&from, 0o755);
        fs::write(&to, "what was there before").unwrap();
        fs::hard_link(&to, &other).unwrap();
        set_mode(&to, 0o600);
        let inode = fs::metadata(&to).unwrap().ino();
        way.copied(&lab, &from, &to);
        assert_eq!((fs::metadata(&to).unwrap().ino(), mode(&to)), (inode, 0o600), "{way:?}");
        assert_eq!(fs::read_to_string(&other).unwrap(), "new", "{way:?}: the other link of it");
        assert_eq!(fs::read_dir(lab.here.path()).unwrap().count(), 3, "{way:?}: nothing beside them");
    }
}

#[test]
fn new_file_gets_the_mode_of_the_source() {
    for way in WAYS {
        let lab = Lab::open();
        for bits in [0o640, 0o755, 0o400, 0o4777] {
            let (from, to) = (lab.path(format!("from{bits:o}")), lab.path(format!("to{bits:o}")));
            fs::write(&from, "text").unwrap();
            set_mode(&from, bits);
            way.copied(&lab, &from, &to);
            assert_eq!(mode(&to), bits & 0o777 & !umask(), "{way:?} {bits:o}");
            assert_eq!(fs::read(&to).unwrap(), b"text");
        }
    }
}

#[test]
fn links_are_followed() {
    for way in WAYS {
        let lab = Lab::open();
        let [from, to, link, loose, made] =
            ["from", "to", "link", "loose", "made"].map(|name| lab.path(name));
        fs::write(&from, "new").unwrap();
        fs::write(&to, "old").unwrap();
        symlink("to", &link).unwrap();
        symlink("made", &loose).unwrap();
        for (link, target) in [(&link, &to), (&loose, &made)] {
            way.copied(&lab, &from, link);
            assert!(fs::symlink_metadata(link).unwrap().is_symlink(), "{way:?}");
            assert_eq!(fs::read_to_string(target).unwrap(), "new", "{way:?}");
        }
        // A link as the source.
        let copy = lab.path("copy");
        way.copied(&lab, &link, &copy);
        assert!(fs::symlink_metadata(copy).unwrap().is_file());
    }
}

#[test]
fn fifos_are_written_to() {
    for way in WAYS {
        let lab = Lab::open();
        let (from, to) = (lab.path("from"), lab.path("to"));
        let bytes: Vec<u8> = (0..300_000u32).map(|number| (number % 251) as u8).collect();
        fs::write(&from, &bytes).unwrap();
        fifo(&to);
        let reader = thread::spawn({
            let to = to.clone();
            move || fs::read(to).unwrap()
        });
        way.copied(&lab, &from, &to);
        assert!(fs::symlink_metadata(&to).unwrap().file_type().is_fifo(), "{way:?}");
        assert!(reader.join().unwrap() == bytes, "{way:?}");
    }
}

#[test]
fn closed_reader_ends_a_copy_out() {
    let lab = Lab::open();
    let from = lab.path("from");
    fs::write(&from, vec![1; 10 << 20]).unwrap();
    let mut command = lab.command("cp");
    command
        .args(Way::Out.names(&from, Path::new("/dev/stdout")))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut copy = command.spawn().unwrap();
    copy.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
    let output = copy.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn devices_are_written_to() {
    for way in WAYS {
        let lab = Lab::open();
        let from = lab.path("from");
        fs::write(&from, "to a terminal").unwrap();
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let slave = ptsname(&master, Vec::new()).unwrap();
        let slave = Path::new(OsStr::from_bytes(slave.as_bytes()));
        // Held open, so that the terminal is not hung up between the writer's end and the read.
        let held = OpenOptions::new().read(true).write(true).open(slave).unwrap();
        way.copied(&lab, &from, slave);
        let mut said = [0; 13];
        File::from(master).read_exact(&mut said).unwrap();
        assert_eq!(&said, b"to a terminal", "{way:?}");
        drop(held);
    }
}

#[test]
fn standard_output_is_a_target() {
    let lab = Lab::open();
    let from = lab.path("from");
    fs::write(&from, "text\n").unwrap();
    // Uses a link in the test's folder: a copy that replaced the target would break the host.
    let stdout = lab.path("stdout");
    symlink("/dev/stdout", &stdout).unwrap();
    let output = Way::Out.copy(&lab, &from, &stdout);
    assert!(output.status.success() && output.stdout == b"text\n", "{output:?}");
    assert!(fs::symlink_metadata(stdout).unwrap().is_symlink());
}

#[test]
fn standard_input_is_a_source() {
    let lab = Lab::open();
    let mut copy = lab.command("cp");
    copy.arg("/dev/stdin").arg(there(&lab.path("to"))).stdin(Stdio::piped());
    let mut copy = copy.spawn().unwrap();
    copy.stdin.take().unwrap().write_all(b"typed").unwrap();
    assert!(copy.wait().unwrap().success());
    assert_eq!(fs::read(lab.path("to")).unwrap(), b"typed");
}

#[test]
fn every_name_is_copied() {
    let names = [&b"-n"[..], b"a b", b"a\nb\n", b"it's \"$HOME\" `x` \\n", b"\xff\xfe", b"a:b", b"*", b"-"];
    for way in WAYS {
        let lab = Lab::open();
        let folder = lab.path("folder");
        fs::create_dir(&folder).unwrap();
        for name in names.map(OsStr::from_bytes) {
            let from = lab.path(name);
            fs::write(&from, name.as_bytes()).unwrap();
            // Copies into a directory, with and without a slash, and to a name.
            let mut slash = folder.clone().into_os_string();
            slash.push("/");
            for to in [folder.clone(), slash.into(), folder.join(name)] {
                way.copied(&lab, &from, &to);
                assert_eq!(fs::read(folder.join(name)).unwrap(), name.as_bytes(), "{way:?} {name:?}");
                fs::remove_file(folder.join(name)).unwrap();
            }
        }
    }
    let lab = Lab::open();
    fs::write(lab.path("-n"), "dash").unwrap();
    fs::write(lab.path("a:b"), "colon").unwrap();
    fs::create_dir(lab.path("folder")).unwrap();
    for (from, name) in [("-n", "-n"), ("./a:b", "a:b")] {
        Way::In.copied(&lab, Path::new(from), &lab.path("folder"));
        assert!(lab.path("folder").join(name).exists(), "{name}");
    }
}

#[test]
fn a_source_that_cannot_be_read_changes_nothing() {
    for way in WAYS {
        let lab = Lab::open();
        let to = lab.path("to");
        fs::write(&to, "old").unwrap();
        way.fails(&lab, &lab.path("none"), &to, "No such file");
        way.fails(&lab, lab.here.path(), &to, "is a directory");
        assert_eq!(fs::read_to_string(&to).unwrap(), "old");
        way.fails(&lab, &lab.path("none"), &lab.path("new"), "No such file");
        assert!(!lab.path("new").exists());
    }
}

#[test]
fn a_full_device_is_reported() {
    for way in WAYS {
        let lab = Lab::open();
        let from = lab.path("from");
        fs::write(&from, vec![7; 1 << 20]).unwrap();
        let full = lab.path("full");
        symlink("/dev/full", &full).unwrap();
        way.fails(&lab, &from, &full, "No space left on device");
        way.fails(&lab, &from, &lab.path("no/such/folder"), "no/such/folder");
    }
}

#[test]
fn program_with_a_missing_interpreter_is_reported() {
    let lab = Lab::open();
    let (from, to) = (lab.path("from"), lab.path("to"));
    fs::write(&from, "#!/no/such/interpreter\n").unwrap();
    Way::In.copied(&lab, &from, &to);
    set_mode(&from, 0o755);
    let output = Way::In.copy(&lab, &from, &to);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{output:?}");
    assert!(said.contains("needs the interpreter /no/such/interpreter, which is not there"), "{said}");
    fs::write(&from, "#!/bin/sh\n").unwrap();
    Way::In.copied(&lab, &from, &to);
}

#[test]
fn an_interrupted_copy_leaves_what_was_written() {
    for way in WAYS {
        let lab = Lab::open();
        let (from, to) = (lab.path("from"), lab.path("to"));
        fifo(&from);
        let mut copy = lab.command("cp").args(way.names(&from, &to)).spawn().unwrap();
        let mut source = OpenOptions::new().write(true).open(&from).unwrap();
        source.write_all(b"the first half").unwrap();
        while fs::read(&to).unwrap_or_default() != b"the first half" {
            assert!(copy.try_wait().unwrap().is_none(), "{way:?}: the copy ended early");
            sleep(Duration::from_millis(5));
        }
        copy.kill().unwrap();
        copy.wait().unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"the first half");
        assert_eq!(fs::read_dir(lab.here.path()).unwrap().count(), 2, "{way:?}: nothing beside them");
    }
}
