//! The scripts in a tree with another name or in another place. Fetches and builds nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hamlyn_lab::Kit;
use tempfile::TempDir;

/// Creates a tree with this name that contains only the scripts.
fn tree(folder: &TempDir, name: &str) -> PathBuf {
    let tree = folder.path().canonicalize().unwrap().join(name);
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts");
    fs::create_dir_all(&tree).unwrap();
    assert!(Command::new("cp").arg("-r").arg(scripts).arg(&tree).status().unwrap().success());
    tree
}

/// Runs a line of shell in a tree, with the common part of all scripts.
fn shell(tree: &Path, line: &str) -> Output {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("source scripts/lib/all.sh; {line}"), "scripts/driver"]).current_dir(tree);
    command.env_remove("HAMLYN_CACHE").env("HAMLYN_KIT", "/another/kit.json").env("CDPATH", "/");
    command.output().unwrap()
}

fn text(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout).unwrap().trim_end()
}

#[test]
fn unusable_tree_paths_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for character in "' \"#:$&%;()\\`!?*<>|\n".chars() {
        let tree = tree(&folder, &format!("a{character}b"));
        let output = shell(&tree, "true");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{character:?}: {output:?}");
        assert!(said.contains(&format!("holds '{character}', with which")), "{said}");
        assert!(!tree.join(".hamlyn").exists(), "{character:?}");
    }
    for name in ["naïve", "[w]", "a,b", "a-b_c.d+e@f=g~h^i{j}"] {
        assert_eq!(text(&shell(&tree(&folder, name), "echo well")), "well", "{name}");
    }
}

#[test]
fn copied_tree_uses_its_own_files() {
    let folder = tempfile::tempdir().unwrap();
    let first = tree(&folder, "first");
    // The caller's kit belongs to another tree.
    assert_eq!(text(&shell(&first, "echo $HAMLYN_KIT")), first.join(".hamlyn/kit.json").to_str().unwrap());
    let parts = [
        "bin/qemu-system-x86_64",
        "guest/vmlinux",
        "guest/initrd.img",
        "guest/programs.img",
        "root/usr/lib64/ld-linux-x86-64.so.2",
    ];
    for part in parts {
        let part = first.join(".hamlyn").join(part);
        fs::create_dir_all(part.parent().unwrap()).unwrap();
        fs::write(part, "").unwrap();
    }
    // The loader that starts QEMU prints the command that it would run.
    let loader = first.join(".hamlyn/root/usr/lib64/ld-linux-x86-64.so.2");
    fs::write(&loader, "#!/bin/sh\necho \"$0\" \"$@\"\n").unwrap();
    let write = "host_qemu() { :; }; mkdir -p $BINARIES; write_kit; qemu_wrapper >$CACHE/bin/qemu-system-x86_64; \
        chmod +x $CACHE/bin/* $CACHE/root/usr/lib64/*";
    text(&shell(&first, write));
    let second = folder.path().canonicalize().unwrap().join("second");
    assert!(Command::new("cp").arg("-a").arg(&first).arg(&second).status().unwrap().success());
    for tree in [&first, &second] {
        let kit = Kit::read(&tree.join(".hamlyn/kit.json")).unwrap();
        let programs = kit.programs.canonicalize().unwrap();
        for part in [&kit.qemu, &kit.kernel, &kit.initrd, &kit.disk.unwrap(), &kit.module, &programs] {
            assert!(part.starts_with(tree), "{} is not in {}", part.display(), tree.display());
        }
        let output = Command::new(&kit.qemu).arg("-version").output().unwrap();
        let said = text(&output);
        let other = if tree == &first { &second } else { &first };
        assert!(said.contains(tree.to_str().unwrap()) && said.ends_with("-version"), "{said}");
        assert!(!said.contains(other.to_str().unwrap()), "{said}");
    }
}

/// Puts a `df` first in the path that reports this number of free MiB.
fn with_room(tree: &Path, mib: u64, script: &[&str]) -> Output {
    let bin = tree.join("fake");
    fs::create_dir_all(&bin).unwrap();
    let df = format!("#!/bin/sh\necho 'Filesystem blocks used free'\necho 'disk 9999999 9999 {mib} 1% /'\n");
    fs::write(bin.join("df"), df).unwrap();
    fs::set_permissions(bin.join("df"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.args(script).current_dir(tree).env("PATH", path).env_remove("HAMLYN_CACHE");
    command.output().unwrap()
}

#[test]
fn too_little_room_ends_scripts_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let tree = tree(&folder, "full");
    let cache = tree.join(".hamlyn");
    for (script, whole) in [("prepare", 2560 + 2048), ("test", 4096 + 12288)] {
        let output = with_room(&tree, 100, &[&format!("scripts/{script}")]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let begin = format!("error: {} has 100 MiB free, and scripts/{script} needs ", cache.display());
        let need = said.strip_prefix(&begin).and_then(|rest| rest.split(' ').next()).unwrap_or("");
        let need: u64 = need.parse().unwrap_or_else(|_| panic!("{said}"));
        // The cache's folders are there already.
        assert!((whole - 5..=whole).contains(&need), "{said}");
        assert!(!cache.join("apt").exists() && !cache.join("root").exists(), "it fetched something");
    }
    let room = |mib: u64| {
        let line = "source scripts/lib/all.sh; need_room it 10 20; echo well";
        with_room(&tree, mib, &["-c", line, "scripts/driver"])
    };
    assert_eq!(text(&room(30)), "well");
    assert!(!room(20).status.success());
    // What is there needs no room.
    fs::create_dir_all(tree.join("target")).unwrap();
    fs::write(tree.join("target/made"), vec![1; 15 << 20]).unwrap();
    assert_eq!(text(&room(20)), "well");
    assert!(!room(5).status.success());
}

#[test]
fn all_parts_have_one_version() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    let copy = "mkdir $1 && cp -r --parents Cargo.toml CHANGELOG.md scripts guest-driver guest-lib/c/src guest-lib/python $1";
    let copied = Command::new("sh")
        .args(["-c", copy, "-"])
        .arg(&tree)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .status();
    assert!(copied.unwrap().success());
    let check = || {
        Command::new(tree.join("scripts/release")).arg("--check").env_remove("HAMLYN_CACHE").output().unwrap()
    };
    assert!(text(&check()).starts_with("all parts have version "));
    for (file, line) in
        [("guest-driver/net/device.c", "MODULE_VERSION"), ("guest-lib/c/src/call.rs", "ULN_VERSION: u32")]
    {
        let file = tree.join(file);
        let was = fs::read_to_string(&file).unwrap();
        fs::write(&file, was.replace(line, "OTHER")).unwrap();
        let output = check();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            !output.status.success() && said.contains(file.file_name().unwrap().to_str().unwrap()),
            "{said}"
        );
        fs::write(&file, was).unwrap();
    }
}

#[test]
fn coverage_table_counts_lines_with_code() {
    let folder = tempfile::tempdir().unwrap();
    let tree = tree(&folder, "counts");
    let source = |name: &str, lines: &str| {
        let text = format!("        -:    0:Source:core/{name}\n        -:    0:Runs:1\n{lines}");
        fs::write(tree.join(format!("core#{name}.gcov")), text).unwrap();
    };
    source("a.c", "        -:    1:// x\n        3:    2:a\n    #####:    3:b: c\n       1*:    4:d\n");
    source("b.c", "    #####:    3:9: b\n        0:    4:c\n        7:    5:d\n");
    let table = text(&shell(&tree, "awk -F: -f scripts/lib/coverage.awk core*.gcov")).to_owned();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    let expected = [
        vec!["file", "lines", "executed"],
        vec!["core/a.c", "3", "2", "66.7", "%"],
        vec!["core/b.c", "3", "1", "33.3", "%"],
        vec![],
        vec!["core/", "6", "3", "50.0", "%"],
        vec!["all", "6", "3", "50.0", "%"],
    ];
    assert_eq!(rows, expected, "{table}");
}

#[test]
fn refused_dumps_are_named_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let tree = tree(&folder, "dumps");
    let said = |line: &str| {
        let output =
            Command::new("bash").args(["-c", line]).current_dir(&tree).env_remove("HAMLYN_CACHE").output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(said("scripts/drgn").starts_with("error: no dump is named\n"));
    let missing = format!("error: {} is not a file\n", tree.join("fake/vm0.dump").display());
    let from_a_folder = said("mkdir fake && cd fake && ../scripts/drgn vm0.dump");
    assert!(from_a_folder.starts_with(&missing), "{from_a_folder}");
    let kernel = said("touch fake/vm0.dump; scripts/drgn fake/vm0.dump");
    assert!(kernel.starts_with("error: the debug kernel or its module is missing\n"), "{kernel}");
    assert!(kernel.contains("HAMLYN_KERNEL=debug ./scripts/prepare"), "{kernel}");
}
