//! The scripts in a tree with another name or in another place. Fetches and builds nothing.

use std::fs;
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
