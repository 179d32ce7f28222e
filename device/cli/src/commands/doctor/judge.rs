//! What a host needs, and whether it has it. Nothing here looks at the host.

use super::finding::Finding;

/// Next step for most findings: the command that builds all parts.
pub(super) const PREPARE: &str = "run ./scripts/prepare";

/// The first QEMU with the device, as major and minor number.
const QEMU: (u32, u32) = (10, 1);

/// The device by which QEMU loads a card.
const DEVICE: &str = "\"vfio-user-pci\"";

/// Memory of a lab of two default machines with their QEMUs, and of `./scripts/test`, in MiB.
const MEMORY_OF_LAB: u64 = 1024;
const MEMORY_OF_TESTS: u64 = 4096;

/// Room that `./scripts/prepare` and `./scripts/test` need in all, in MiB. scripts/lib/common.sh
/// has the parts.
pub(super) const ROOM_OF_PREPARE: u64 = 2560 + 2048;
pub(super) const ROOM_OF_TESTS: u64 = 4096 + 12288;

/// Room in the run directory for the logs of a lab of several machines, in MiB.
const ROOM_OF_LOGS: u64 = 64;

/// Descriptors of a process with 64 cards, and of one with a few.
const DESCRIPTORS: u64 = 4096;
const LEAST_DESCRIPTORS: u64 = 256;

/// Memory that programs lend to a card at its socket in one piece, in KiB: 8 MiB.
const LOCKED: u64 = 8192;

/// Judges a QEMU by what it prints for `--version` and `-device help`.
pub(super) fn qemu(version: &str, devices: &str) -> Finding {
    const PART: &str = "qemu";
    let numbers = version.split_whitespace().skip_while(|word| *word != "version").nth(1).unwrap_or_default();
    let mut numbers = numbers.split('.').map_while(|number| number.parse::<u32>().ok());
    let Some(found) = numbers.next().zip(numbers.next()) else {
        return Finding::missing(PART, "it does not say its version", PREPARE);
    };
    let text = format!("version {}.{}", found.0, found.1);
    if found < QEMU {
        return Finding::missing(PART, format!("{text} (least {}.{})", QEMU.0, QEMU.1), PREPARE);
    }
    if !devices.contains(DEVICE) {
        return Finding::missing(PART, format!("{text}, without the device vfio-user-pci"), PREPARE);
    }
    Finding::ok(PART, format!("{text}, with vfio-user"))
}

/// Why KVM does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoKvm {
    /// The kernel has no such device.
    Absent,
    /// This user may not use it.
    Denied,
    /// Anything else.
    Other,
}

/// Judges KVM: whether it works, and why not.
pub(super) fn kvm(works: Result<(), (NoKvm, String)>) -> Finding {
    let (reason, why) = match works {
        Ok(()) => return Finding::ok("kvm", "it works"),
        Err(not) => not,
    };
    let next = match reason {
        NoKvm::Absent => {
            "switch on virtualisation in the firmware, or nested virtualisation of a virtual machine"
        }
        NoKvm::Denied => "add this user to the group kvm, and log in again",
        NoKvm::Other => "take a host whose processor can virtualise, or go on without",
    };
    Finding::warning("kvm", format!("{why}; machines are emulated, which is slower"), next)
}

/// Judges the host's memory by `/proc/meminfo`.
pub(super) fn memory(meminfo: &str) -> Finding {
    const PART: &str = "memory";
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    let Some(free) = kib.map(|kib| kib / 1024) else {
        return Finding::warning(PART, "/proc/meminfo does not say what is available", "look by hand");
    };
    let next = "end other programs, or use fewer machines with less memory (hamlyn up -n 1 --memory 256M)";
    enough(
        PART,
        "",
        free,
        [(MEMORY_OF_LAB, "a lab of two machines"), (MEMORY_OF_TESTS, "./scripts/test")],
        next,
    )
}

/// Judges the room of the folder where everything is built.
pub(super) fn disk(folder: &str, free: u64, is_prepared: bool) -> Finding {
    let next = format!("remove files on the file system of {folder}, or set HAMLYN_CACHE to another folder");
    let (least, more) = match is_prepared {
        true => ((1, "what is there"), ROOM_OF_TESTS - ROOM_OF_PREPARE),
        false => ((ROOM_OF_PREPARE, "./scripts/prepare"), ROOM_OF_TESTS),
    };
    enough("disk", folder, free, [least, (more, "./scripts/test")], &next)
}

/// Judges the room of the run directory.
pub(super) fn run_room(folder: &str, free: u64) -> Finding {
    let next = format!("remove files on the file system of {folder}, or set HAMLYN_RUN to another folder");
    enough("run room", folder, free, [(1, "sockets"), (ROOM_OF_LOGS, "the logs of a lab")], &next)
}

/// Judges an amount in MiB by what the first use and the second one need.
fn enough(part: &'static str, place: &str, free: u64, needs: [(u64, &str); 2], next: &str) -> Finding {
    let place = if place.is_empty() { String::new() } else { format!(" in {place}") };
    let text = format!("{free} MiB free{place}");
    let short = needs.iter().position(|(need, _)| free < *need);
    let say = |at: usize| format!("{text}, and {} needs {} MiB", needs[at].1, needs[at].0);
    match short {
        None => Finding::ok(part, text),
        Some(0) => Finding::missing(part, say(0), next),
        Some(at) => Finding::warning(part, say(at), next),
    }
}

/// Judges the hard limit of descriptors of a process.
pub(super) fn descriptors(limit: Option<u64>) -> Finding {
    const PART: &str = "descriptors";
    let next = "raise it: ulimit -Hn, or LimitNOFILE= of a service";
    match limit {
        Some(limit) if limit < LEAST_DESCRIPTORS => {
            let what = format!("a process may have {limit}, and a lab needs {LEAST_DESCRIPTORS}");
            Finding::missing(PART, what, next)
        }
        Some(limit) if limit < DESCRIPTORS => {
            let what = format!("a process may have {limit}, and a lab of 64 machines needs {DESCRIPTORS}");
            Finding::warning(PART, what, next)
        }
        Some(limit) => Finding::ok(PART, format!("a process may have {limit}")),
        None => Finding::ok(PART, "no limit"),
    }
}

/// Judges the limit of locked memory, in bytes.
pub(super) fn locked_memory(limit: Option<u64>) -> Finding {
    const PART: &str = "locked memory";
    match limit.map(|bytes| bytes / 1024) {
        Some(kib) if kib < LOCKED => Finding::warning(
            PART,
            format!("{kib} KiB; programs in a driver of this host lend no more than that to a card"),
            "raise it: ulimit -l, or LimitMEMLOCK= of a service",
        ),
        Some(kib) => Finding::ok(PART, format!("{kib} KiB")),
        None => Finding::ok(PART, "no limit"),
    }
}

/// Judges kernel headers: whether those of the running kernel are there.
pub(super) fn headers(kernel: &str, are_there: bool) -> Finding {
    match are_there {
        true => Finding::ok("headers", format!("those of {kernel} are there")),
        // The guests' kernel has headers of its own in the kit.
        false => Finding::ok(
            "headers",
            format!("none of {kernel}; only a driver for this very machine needs linux-headers-{kernel}"),
        ),
    }
}

/// Judges what dead labs have left.
pub(super) fn leftovers(labs: &[String], sockets: &[String], processes: &[String]) -> Finding {
    const PART: &str = "left over";
    let lists = [
        ("directories of dead labs", labs, "hamlyn lab down NAME removes one"),
        ("sockets of dead processes", sockets, "remove the files"),
        ("processes of dead labs", processes, "kill them"),
    ];
    let there: Vec<_> = lists.iter().filter(|(_, all, _)| !all.is_empty()).collect();
    if there.is_empty() {
        return Finding::ok(PART, "nothing");
    }
    let what = there.iter().map(|(what, all, _)| format!("{what}: {}", all.join(", ")));
    let next = there.iter().map(|(.., next)| *next).collect::<Vec<_>>();
    Finding::warning(PART, what.collect::<Vec<_>>().join("; "), next.join("; "))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::finding::State;
    use super::*;

    #[test]
    fn qemu_needs_version_and_device() {
        let version = |number: &str| format!("QEMU emulator version {number} (Debian 1:10.1)\nCopyright");
        let devices = "name \"virtio\"\nname \"vfio-user-pci\", bus PCI\n";
        let state = |version: &str, devices: &str| qemu(version, devices).state;
        assert_eq!(state(&version("10.1.2"), devices), State::Ok);
        assert_eq!(state(&version("11.0.0"), devices), State::Ok);
        assert_eq!(state(&version("10.1.2"), "name \"virtio\""), State::Missing);
        assert_eq!(state("nonsense", devices), State::Missing);
        let old = qemu(&version("10.0.8"), devices);
        assert_eq!((old.state, &*old.what), (State::Missing, "version 10.0 (least 10.1)"));
        assert_eq!(old.next.as_deref(), Some(PREPARE));
    }

    #[test]
    fn kvm_is_optional() {
        assert_eq!(kvm(Ok(())).state, State::Ok);
        for (reason, word) in
            [(NoKvm::Absent, "firmware"), (NoKvm::Denied, "the group kvm"), (NoKvm::Other, "processor")]
        {
            let found = kvm(Err((reason, "why".into())));
            assert!(found.state == State::Warning && found.next.unwrap().contains(word), "{word}");
        }
    }

    #[test]
    fn amounts_are_judged_by_their_uses() {
        let meminfo = |mib: u64| format!("MemTotal: 99 kB\nMemAvailable:  {} kB\n", mib * 1024);
        let states = [1023, 1024, 4095, 4096].map(|mib| memory(&meminfo(mib)).state);
        assert_eq!(states, [State::Missing, State::Warning, State::Warning, State::Ok]);
        assert_eq!(memory("").state, State::Warning);
        let short = disk("/home", 4607, false);
        let what = "4607 MiB free in /home, and ./scripts/prepare needs 4608 MiB";
        assert_eq!((short.state, &*short.what), (State::Missing, what));
        assert_eq!(disk("/home", 4607, true).state, State::Warning);
        assert_eq!(disk("/home", ROOM_OF_TESTS, false).state, State::Ok);
        assert_eq!(
            [0, 63, 64].map(|mib| run_room("/run", mib).state),
            [State::Missing, State::Warning, State::Ok]
        );
    }

    #[test]
    fn limits_of_processes_are_judged() {
        let states = [Some(255), Some(1024), Some(4096), None].map(|limit| descriptors(limit).state);
        assert_eq!(states, [State::Missing, State::Warning, State::Ok, State::Ok]);
        let states = [Some(64 << 10), Some(8 << 20), None].map(|limit| locked_memory(limit).state);
        assert_eq!(states, [State::Warning, State::Ok, State::Ok]);
    }

    #[test]
    fn leftovers_name_what_removes_them() {
        assert_eq!(leftovers(&[], &[], &[]).state, State::Ok);
        let found = leftovers(&["x".into()], &[], &["7 hamlyn".into()]);
        assert_eq!(found.what, "directories of dead labs: x; processes of dead labs: 7 hamlyn");
        assert_eq!(found.next.as_deref(), Some("hamlyn lab down NAME removes one; kill them"));
    }

    #[test]
    fn room_agrees_with_the_scripts() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/lib/common.sh");
        let script = std::fs::read_to_string(file).unwrap();
        let sum = |name: &str| {
            let line = script.lines().find_map(|line| line.strip_prefix(&format!("{name}=("))).unwrap();
            line.trim_end_matches(')').split(' ').map(|mib| mib.parse::<u64>().unwrap()).sum::<u64>()
        };
        assert_eq!((sum("PREPARE_ROOM"), sum("TEST_ROOM")), (ROOM_OF_PREPARE, ROOM_OF_TESTS));
    }
}
