//! The kit: the emulator and the guest's kernel, image and module, as built by `./scripts/prepare`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Deserialize;

use super::{Accel, Vmm};

/// Locations of a virtual machine's parts. The file names them relative to its own folder, so a
/// copied or moved tree has its own kit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Kit {
    /// QEMU, 10.1 or newer.
    pub qemu: PathBuf,
    /// The guest's kernel.
    pub kernel: PathBuf,
    /// The guest's initial RAM disk, with the module.
    pub initrd: PathBuf,
    /// The disk with the guest's programs, which the initial RAM disk mounts.
    pub disk: Option<PathBuf>,
    /// The kernel module as a separate file.
    pub module: PathBuf,
    /// The program that makes images of Debian packages.
    pub packages: Option<PathBuf>,
    /// The folder of the programs that run on the host: those of the guests, and `hamlyn`.
    pub programs: PathBuf,
    /// Additional MiB that this kernel needs to look for errors, such as KASAN's shadow memory.
    #[serde(default)]
    pub extra_memory: u32,
    /// How machines run on this host, or with this kernel.
    #[serde(default)]
    pub host: Host,
}

/// Settings for a slow host that is itself an emulated machine (`images/kvm` makes one), or for a
/// slow debug kernel. Other kits omit them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Host {
    /// The program that runs every machine, overriding the lab's.
    pub vmm: Option<Vmm>,
    /// Accelerator of every machine, overriding the lab's. The lab fails if it does not work.
    pub accel: Option<Accel>,
    /// Words for each kernel's command line.
    pub kernel_args: String,
    /// Number of processors of each machine, unless its QEMU arguments set it.
    pub processors: Option<u16>,
    /// The handshake period of cards that set none, in milliseconds.
    pub handshake_ms: Option<u32>,
    /// The shortest time to wait for a guest and for each output of a program in it, in seconds.
    pub patience_s: u64,
}

impl Kit {
    /// Finds the kit: `$HAMLYN_KIT`, else `$HAMLYN_CACHE/kit.json`, else `.hamlyn/kit.json`. The
    /// last is searched in the current folder, the program's folder and all folders above them.
    pub fn find() -> anyhow::Result<Kit> {
        if let Some(file) = env::var_os("HAMLYN_KIT") {
            return Kit::read(Path::new(&file));
        }
        if let Some(cache) = env::var_os("HAMLYN_CACHE") {
            return Kit::read(&Path::new(&cache).join("kit.json"));
        }
        let places = [env::current_dir().ok(), env::current_exe().ok()];
        let found = places.iter().flatten().find_map(|place| Kit::above(place));
        match found {
            Some(file) => Kit::read(&file),
            None => bail!("there is no .hamlyn/kit.json here or above: run ./scripts/prepare"),
        }
    }

    fn above(place: &Path) -> Option<PathBuf> {
        place.ancestors().map(|folder| folder.join(".hamlyn/kit.json")).find(|file| file.is_file())
    }

    /// Reads a kit and checks that all its parts except the module exist.
    pub fn read(file: &Path) -> anyhow::Result<Kit> {
        let text = fs::read(file)
            .with_context(|| format!("cannot read the kit {}: run ./scripts/prepare", file.display()))?;
        let mut kit: Kit = serde_json::from_slice(&text)
            .with_context(|| format!("the kit {} is damaged: run ./scripts/prepare", file.display()))?;
        // Resolves links first: the path may be a link, and "../target" is relative to the real
        // folder.
        let file = file.canonicalize().with_context(|| format!("cannot find {}", file.display()))?;
        let folder = file.parent().unwrap_or(Path::new("/"));
        let parts = [&mut kit.qemu, &mut kit.kernel, &mut kit.initrd, &mut kit.module, &mut kit.programs];
        for part in parts.into_iter().chain(&mut kit.disk).chain(&mut kit.packages) {
            *part = folder.join(&*part);
        }
        for part in [&kit.qemu, &kit.kernel, &kit.initrd, &kit.programs].into_iter().chain(&kit.disk) {
            if !part.exists() {
                bail!(
                    "the kit {} names {}, which is missing: run ./scripts/prepare",
                    file.display(),
                    part.display()
                );
            }
        }
        Ok(kit)
    }

    /// Returns a program that runs on this host, or the library for C, by its path below the
    /// programs folder.
    pub fn program(&self, name: &str) -> anyhow::Result<PathBuf> {
        let program = self.programs.join(name);
        if !program.is_file() {
            bail!("{} is missing: run ./scripts/prepare", program.display());
        }
        Ok(program)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error_of(text: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("kit.json");
        fs::write(&file, text).unwrap();
        format!("{:#}", Kit::read(&file).unwrap_err())
    }

    #[test]
    fn every_error_names_the_command_to_run() {
        let dir = tempfile::tempdir().unwrap();
        let missing = format!("{:#}", Kit::read(&dir.path().join("kit.json")).unwrap_err());
        let absent = json!({ "qemu": "/no/qemu", "kernel": "/no/k", "initrd": "/no/i", "module": "/no/m", "programs": "/no/p" });
        for error in [missing, error_of("{"), error_of("{}"), error_of(&absent.to_string())] {
            assert!(error.contains("run ./scripts/prepare"), "{error}");
        }
        assert!(error_of(&absent.to_string()).contains("/no/qemu, which is missing"));
    }

    #[test]
    fn copied_tree_has_its_own_kit() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two, link] =
            ["one", "two", "link"].map(|name| dir.path().canonicalize().unwrap().join(name));
        for tree in [&one, &two] {
            fs::create_dir_all(tree.join("cache/guest")).unwrap();
            fs::create_dir_all(tree.join("target")).unwrap();
            for part in ["cache/qemu", "cache/guest/kernel", "cache/guest/image", "cache/guest/disk"] {
                fs::write(tree.join(part), "").unwrap();
            }
            let kit = json!({ "qemu": "qemu", "kernel": "guest/kernel", "initrd": "guest/image", "disk": "guest/disk",
                "module": "guest/module", "programs": "../target" });
            fs::write(tree.join("cache/kit.json"), kit.to_string()).unwrap();
        }
        for tree in [&one, &two] {
            let kit = Kit::read(&tree.join("cache/kit.json")).unwrap();
            let disk = kit.disk.as_ref().unwrap();
            for part in [&kit.qemu, &kit.kernel, &kit.initrd, disk, &kit.module, &kit.programs] {
                assert!(part.starts_with(tree), "{} is not in {}", part.display(), tree.display());
            }
            assert_eq!(kit.programs.canonicalize().unwrap(), tree.join("target"));
        }
        // A link to the kit's folder leads to the parts beside the real folder.
        std::os::unix::fs::symlink(one.join("cache"), &link).unwrap();
        let kit = Kit::read(&link.join("kit.json")).unwrap();
        assert_eq!(kit.programs.canonicalize().unwrap(), one.join("target"));
    }

    #[test]
    fn kit_describes_slow_host() {
        let parts = json!({ "qemu": "/", "kernel": "/", "initrd": "/", "module": "/", "programs": "/" });
        let read = |host: Option<serde_json::Value>| {
            let mut kit = parts.clone();
            kit.as_object_mut().unwrap().extend(host.map(|host| ("host".to_owned(), host)));
            serde_json::from_value::<Kit>(kit).map(|kit| kit.host)
        };
        assert_eq!(read(None).unwrap(), Host::default());
        let slow = json!({ "vmm": "cloud-hypervisor", "accel": "kvm", "kernel_args": "nokaslr", "processors": 2, "handshake_ms": 60000, "patience_s": 900 });
        let expected = Host {
            vmm: Some(Vmm::CloudHypervisor),
            accel: Some(Accel::Kvm),
            kernel_args: "nokaslr".into(),
            processors: Some(2),
            handshake_ms: Some(60_000),
            patience_s: 900,
        };
        assert_eq!(read(Some(slow)).unwrap(), expected);
        assert!(read(Some(json!({ "patience": 900 }))).unwrap_err().to_string().contains("patience"));
    }

    #[test]
    fn kit_is_found_from_a_subfolder() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("a/b");
        fs::create_dir_all(&below).unwrap();
        fs::create_dir(dir.path().join(".hamlyn")).unwrap();
        let file = dir.path().join(".hamlyn/kit.json");
        fs::write(&file, "{}").unwrap();
        assert_eq!(Kit::above(&below), Some(file));
    }
}
