//! The way from a description to a lab: the same for `hamlyn up`, `hamlyn demo` and lab files.

use std::path::{Path, PathBuf};

use anyhow::Context;
use hamlyn_host::catalogue::Choice;
use hamlyn_lab::{Builder, Kit, Lab, Own, Packages, System};

use super::file::{Description, Fabric, Machine};
use crate::commands::layout::Layout;
use crate::commands::switch::Express;

impl Description {
    /// Returns a machine's name.
    pub(super) fn machine_name(&self, index: usize) -> String {
        let own = self.machines[index].name.as_ref();
        own.map_or_else(|| format!("vm{index}"), ToString::to_string)
    }

    /// Returns the names of all machines.
    pub(super) fn names(&self) -> Vec<String> {
        (0..self.machines.len()).map(|index| self.machine_name(index)).collect()
    }

    /// Returns the machine of this name.
    pub(super) fn index_of(&self, name: &str) -> Option<usize> {
        (0..self.machines.len()).find(|index| self.machine_name(*index) == name)
    }

    /// Makes the paths of files absolute. They are relative to the lab file's folder.
    pub(super) fn resolve(&mut self, folder: &Path) {
        let own = self.machines.iter_mut().flat_map(|machine| {
            let Machine { kernel, initrd, image, files, .. } = machine;
            let sources = files.iter_mut().map(|file| &mut file.source);
            kernel.iter_mut().chain(initrd).chain(image).chain(sources)
        });
        own.for_each(|path| *path = folder.join(&*path));
        self.programs.iter_mut().for_each(|program| program.resolve(folder));
    }

    /// Chooses the layout for this host.
    pub(in super::super) fn layout(&self) -> Layout {
        Layout::choose(self.vmm.0, self.fabric.layout.0, &self.fabric.cores, self.machines.len())
    }

    /// Returns the lab with this layout. Makes images of packages, and tells about it.
    pub(in super::super) fn builder(&self, layout: &Layout, tell: impl Fn(&str)) -> anyhow::Result<Builder> {
        let mut images = Vec::new();
        let own = self.machines.iter().map(|machine| own(machine, &mut images, &tell));
        let own = own.collect::<anyhow::Result<Vec<Own>>>()?;
        let models: Vec<_> = self.machines.iter().map(|machine| machine.model.0).collect();
        let lab = Lab::builder()
            .models(&models)
            .each(own)
            .vmm(self.vmm.0)
            .accel(self.accel.0)
            .snoop(self.snoop.0)
            .programs(self.programs.iter().cloned())
            .network(self.net)
            .ip(self.ip)
            .card_args(self.card_arguments())
            .switch_args(self.fabric.switch_arguments(layout, self.machines.len()));
        let lab = layout.apply(lab);
        Ok(match &self.name {
            Some(name) => lab.name(name.clone()),
            None => lab,
        })
    }

    /// Returns the arguments of all cards. Cards that need the mesh's column count for their
    /// coordinates get it, unless something sets it already.
    fn card_arguments(&self) -> Vec<String> {
        let card = &self.fabric.card_arguments;
        let have = |machine: &Machine| Choice::of(machine.model.0).get("columns").is_ok();
        let is_said = card.iter().any(|word| word == "--columns" || word.starts_with("--columns="))
            || self.machines.iter().any(|machine| machine.settings.contains_key("columns"));
        let wanted = self.fabric.mesh.filter(|_| !is_said && self.machines.iter().all(have));
        let columns = wanted.map(|shape| format!("--columns={}", shape.columns));
        columns.into_iter().chain(card.iter().cloned()).collect()
    }
}

impl Fabric {
    /// Returns the arguments of the switch.
    fn switch_arguments(&self, layout: &Layout, machines: usize) -> Vec<String> {
        let route = match self.mesh {
            Some(shape) => format!("--mesh={shape}"),
            None => format!("--paths={}", self.paths),
        };
        // Limits the ports: a machine would have a function for each unused port. One process has
        // as many ports as cards.
        let ports = (self.express.0 == Express::Isolated && *layout == Layout::Isolated)
            .then(|| format!("--ports={machines}"));
        let more = [
            format!("--quantum={}", self.cutting),
            format!("--express={}", self.express),
            format!("--express-part={}", self.express_part),
        ];
        [route].into_iter().chain(more).chain(ports).collect()
    }
}

/// Returns what a machine has of its own. The images of packages are each made once.
fn own(machine: &Machine, images: &mut Vec<(Packages, System)>, tell: impl Fn(&str)) -> anyhow::Result<Own> {
    let system = match (&machine.packages, &machine.image) {
        (Some(packages), _) => Some(match images.iter().find(|(of, _)| of == packages) {
            Some((_, image)) => image.clone(),
            None => {
                tell("the image of packages");
                let image = System::of_packages(&Kit::find()?, packages)?;
                images.push((packages.clone(), image.clone()));
                image
            }
        }),
        (None, image) => image.as_deref().map(System::open).transpose()?,
    };
    let choice = Choice::of(machine.model.0);
    let settings = machine.settings.iter().filter_map(|(name, value)| {
        let known = choice.model().settings.iter().find(|known| known.name == name)?;
        Some((known.name, *value))
    });
    Ok(Own {
        name: machine.name.clone(),
        memory: Some(machine.memory),
        kernel: readable(&machine.kernel)?,
        initrd: readable(&machine.initrd)?,
        append: machine.append.clone(),
        system,
        qemu_args: machine.qemu.clone(),
        settings: settings.collect(),
    })
}

/// Returns a file that can be read.
fn readable(file: &Option<PathBuf>) -> anyhow::Result<Option<PathBuf>> {
    if let Some(file) = file {
        std::fs::File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    Ok(file.clone())
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;

    fn description(fabric: &str, machine: &str) -> Description {
        let text = format!("[fabric]\n{fabric}\n[[machine]]\n{machine}\n[[machine]]\n{machine}\n");
        parse(&text).unwrap_or_else(|wrong| panic!("{wrong:?}")).0
    }

    #[test]
    fn cards_get_mesh_columns_unless_given() {
        let arguments = |fabric: &str, machine: &str| description(fabric, machine).card_arguments();
        let shrimp = "model = \"shrimp\"";
        assert_eq!(arguments("mesh = \"2x3\"", shrimp), ["--columns=2"]);
        assert_eq!(arguments("", shrimp), Vec::<String>::new());
        assert_eq!(arguments("mesh = \"2x3\"", ""), Vec::<String>::new());
        for words in ["[\"--columns\", \"8\"]", "[\"--columns=8\"]"] {
            let fabric = format!("mesh = \"2x3\"\ncard-arguments = {words}");
            let arguments = arguments(&fabric, shrimp);
            assert!(!arguments.contains(&"--columns=2".to_owned()), "{arguments:?}");
        }
        let own = format!("{shrimp}\nsettings = {{ columns = 8 }}");
        assert_eq!(arguments("mesh = \"2x3\"", &own), Vec::<String>::new());
    }

    #[test]
    fn switch_gets_what_fabric_says() {
        let fabric =
            "layout = \"isolated\"\npaths = 4\ncutting = 0\nexpress = \"isolated\"\nexpress-part = \"64K\"";
        let lab = description(fabric, "");
        let arguments = lab.fabric.switch_arguments(&lab.layout(), 2);
        let all = ["--paths=4", "--quantum=0", "--express=isolated", "--express-part=64K", "--ports=2"];
        assert_eq!(arguments, all);
        let lab = description("mesh = \"1x2\"", "");
        let arguments = lab.fabric.switch_arguments(&Layout::One, 2);
        assert_eq!(arguments[0], "--mesh=1x2");
        assert!(!arguments.iter().any(|word| word.starts_with("--ports")), "{arguments:?}");
    }
}
