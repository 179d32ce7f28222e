//! Relations between the parts of a lab file: names that exist, values that fit each other.

use std::collections::BTreeSet;

use hamlyn_faults::Rules;
use hamlyn_host::catalogue;
use hamlyn_trace::contract::Contract;

use super::file::{Description, Expect, MACHINES, Machine, Run};
use super::parse::{Source, Step, Wrong};
use crate::commands::layout::LayoutName;
use crate::commands::switch::Express;

/// Collects errors with the places of their keys.
struct Errors<'s, 'i> {
    source: &'s Source<'i>,
    wrong: Vec<Wrong>,
}

/// Returns the way to a key of a list's table, or of a table.
macro_rules! way {
    ($($step:expr),*) => { [$(Step::from($step)),*] };
}

impl From<&str> for Step {
    fn from(key: &str) -> Step {
        Step::Key(key.to_owned())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Step {
        Step::Index(index)
    }
}

impl Errors<'_, '_> {
    fn add(&mut self, way: &[Step], why: impl Into<String>) {
        let key = way.iter().filter_map(Step::key).collect::<Vec<_>>().join(".");
        self.wrong.push(Wrong { line: self.source.line_of(way), key, why: why.into() });
    }
}

/// Checks a description. Returns all errors, in the order of their lines.
pub(super) fn check(lab: &Description, source: &Source<'_>) -> Vec<Wrong> {
    let mut errors = Errors { source, wrong: Vec::new() };
    if lab.name.is_none() {
        errors.add(&way!["name"], "is missing: other commands find the lab by it");
    }
    let count = lab.machines.len();
    if !(1..=MACHINES).contains(&count) {
        errors.add(&way!["machine"], format!("{count} machines are out of range (limits 1 and {MACHINES})"));
    }
    if let Some(most) = lab.ip.map(hamlyn_lab::Subnet::machines).filter(|most| count > *most) {
        errors.add(&way!["ip"], format!("the range is for {most} machines, not {count}"));
    }
    if lab.net && count != 2 {
        errors.add(&way!["net"], format!("the network links two machines, not {count}"));
    }
    for program in lab.programs.iter().filter(|program| !program.file().is_file()) {
        errors.add(&way!["programs"], format!("{} is not a file", program.file().display()));
    }
    check_fabric(lab, &mut errors);
    let mut names = BTreeSet::new();
    for (index, machine) in lab.machines.iter().enumerate() {
        let name = lab.machine_name(index);
        if !names.insert(name.clone()) {
            errors.add(&way!["machine", index, "name"], format!("two machines have the name {name}"));
        }
        check_machine(lab, index, machine, &mut errors);
    }
    for (index, run) in lab.runs.iter().enumerate() {
        check_run(lab, index, run, &mut errors);
    }
    for (index, expect) in lab.expectations.iter().enumerate() {
        check_expect(&names, index, expect, &mut errors);
    }
    errors.wrong.sort();
    errors.wrong
}

fn check_fabric(lab: &Description, errors: &mut Errors<'_, '_>) {
    let fabric = &lab.fabric;
    match (fabric.layout.0, fabric.cores.is_empty()) {
        (LayoutName::Cores, true) => {
            errors.add(&way!["fabric", "layout"], "the layout cores needs a list, the key cores");
        }
        (LayoutName::Isolated | LayoutName::Auto, false) => {
            errors.add(&way!["fabric", "cores"], "only the layout cores has a list of cores");
        }
        _ => {}
    }
    if let Some(core) = fabric.cores.iter().find(|core| **core >= 1024) {
        errors.add(&way!["fabric", "cores"], format!("core {core} is out of range (limits 0 and 1023)"));
    }
    if fabric.mesh.is_some() && fabric.paths != 1 {
        errors.add(&way!["fabric", "paths"], "a mesh has one path: remove paths or mesh");
    }
    if fabric.mesh.is_some_and(|shape| (shape.nodes() as usize) < lab.machines.len()) {
        let nodes = fabric.mesh.map_or(0, |shape| shape.nodes());
        errors.add(
            &way!["fabric", "mesh"],
            format!("{nodes} nodes are too few for {} cards", lab.machines.len()),
        );
    }
    let models: Vec<_> = lab.machines.iter().map(|machine| machine.model.0).collect();
    if let Err(error) = catalogue::check_together(&models) {
        let first = models.iter().position(|model| !std::ptr::eq(*model, models[0])).unwrap_or(0);
        errors.add(&way!["machine", first, "model"], error.to_string());
    }
    if fabric.express.0 == Express::None && fabric.express_part != hamlyn_switch::Part::default() {
        errors.add(&way!["fabric", "express-part"], "express memory is off: set express, or remove this");
    }
}

fn check_machine(lab: &Description, index: usize, machine: &Machine, errors: &mut Errors<'_, '_>) {
    match machine.choice() {
        Err((setting, why)) => errors.add(&way!["machine", index, "settings", setting], why),
        Ok(choice) => {
            if let Err(error) = choice.make() {
                errors.add(&way!["machine", index, "settings"], error.to_string());
            }
        }
    }
    let contract = Contract::of(machine.model.0.name);
    for (at, rule) in machine.faults.iter().enumerate() {
        if let Err(error) = Rules::parse(rule, &contract) {
            errors.add(&way!["machine", index, "faults", at], error.to_string());
        }
    }
    for name in machine.settings.keys() {
        let flag = format!("--{name}");
        if lab.fabric.card_arguments.iter().any(|word| word.split('=').next() == Some(&flag)) {
            let why = format!("fabric.card-arguments sets {flag} for all cards");
            errors.add(&way!["machine", index, "settings", name.as_str()], why);
        }
    }
    let sources = [
        ("image", machine.image.is_some()),
        ("packages", machine.packages.is_some()),
        ("initrd", machine.initrd.is_some()),
    ];
    let named: Vec<&str> = sources.iter().filter(|(_, is_set)| *is_set).map(|(key, _)| *key).collect();
    if let [first, second, ..] = named[..] {
        errors.add(&way!["machine", index, second], format!("a machine has either {first} or {second}"));
    }
    if machine.initrd.is_some() && !machine.files.is_empty() {
        errors.add(&way!["machine", index, "files"], "a machine with its own initrd has no agent to copy by");
    }
    let paths = [("kernel", &machine.kernel), ("initrd", &machine.initrd), ("image", &machine.image)];
    for (key, path) in paths {
        if let Some(path) = path.as_ref().filter(|path| !path.is_file()) {
            errors.add(&way!["machine", index, key], format!("{} is not a file", path.display()));
        }
    }
    for (at, file) in machine.files.iter().enumerate() {
        if !file.source.is_file() {
            let why = format!("{} is not a file", file.source.display());
            errors.add(&way!["machine", index, "files", at, "source"], why);
        }
        if !file.destination.starts_with('/') || file.destination.ends_with('/') {
            let why = format!("{:?} is not the path of a file from the root", file.destination);
            errors.add(&way!["machine", index, "files", at, "destination"], why);
        }
    }
}

fn check_run(lab: &Description, index: usize, run: &Run, errors: &mut Errors<'_, '_>) {
    match lab.index_of(&run.machine) {
        None => {
            let why =
                format!("machine {:?} does not exist; the lab has: {}", run.machine, lab.names().join(", "));
            errors.add(&way!["run", index, "machine"], why);
        }
        Some(machine) if lab.machines[machine].initrd.is_some() => {
            errors
                .add(&way!["run", index, "machine"], "a machine with its own initrd has no agent to run by");
        }
        Some(_) => {}
    }
    if run.ready.is_some() && !run.background {
        errors.add(&way!["run", index, "ready"], "only a run with background = true has it");
    }
    for (key, text) in [("ready", &run.ready), ("output", &run.output)] {
        if let Some(text) = text.as_ref().filter(|text| text.is_empty() || text.len() > super::runs::LONGEST)
        {
            let (length, most) = (text.len(), super::runs::LONGEST);
            let why = format!("a text of {length} bytes is out of range (limits 1 and {most})");
            errors.add(&way!["run", index, key], why);
        }
    }
}

fn check_expect(names: &BTreeSet<String>, index: usize, expect: &Expect, errors: &mut Errors<'_, '_>) {
    let of = expect.of.as_deref();
    if let Some(of) = of.filter(|of| *of != "switch" && !names.contains(*of)) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let why = format!("{of:?} is neither switch nor a machine; there are: {}", names.join(", "));
        errors.add(&way!["expect", index, "of"], why);
    }
    let limits = [expect.equals, expect.at_least, expect.at_most];
    let place = way!["expect", index];
    match (&expect.counter, expect.no_kernel_warnings) {
        (Some(_), true) => errors.add(&place, "is about a counter, or about kernels: remove one"),
        (None, false) => errors.add(&place, "needs counter, or no-kernel-warnings = true"),
        (Some(_), false) if limits.iter().all(Option::is_none) => {
            errors.add(&place, "a counter needs equals, at-least or at-most");
        }
        (None, true) if limits.iter().any(Option::is_some) => {
            errors.add(&place, "only a counter has equals, at-least or at-most");
        }
        (None, true) if of == Some("switch") => {
            errors.add(&way!["expect", index, "of"], "the switch has no kernel")
        }
        _ => {}
    }
    if expect.equals.is_some() && (expect.at_least.is_some() || expect.at_most.is_some()) {
        errors.add(&way!["expect", index, "equals"], "is either equals, or at-least and at-most");
    }
    match (expect.at_least, expect.at_most) {
        (Some(least), Some(most)) if least > most => {
            errors.add(&way!["expect", index, "at-least"], format!("{least} is more than at-most, {most}"));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;

    fn errors(text: &str) -> Vec<String> {
        let (lab, source) = parse(text).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        super::check(&lab, &source).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn complete_lab_has_no_errors() {
        let text = "name = \"a\"\nip = \"10.7.0.0/24\"\n[fabric]\nmesh = \"2x2\"\nlayout = \"cores\"\ncores = [0]\n\
            [[machine]]\nname = \"x\"\nsettings = { packet-size = 1024 }\n[[machine]]\n\
            [[run]]\nmachine = \"x\"\ncommand = \"true\"\n[[run]]\nmachine = \"vm1\"\ncommand = [\"true\"]\n\
            [[expect]]\nof = \"switch\"\ncounter = \"packets\"\nat-least = 1\n[[expect]]\nno-kernel-warnings = true\n";
        assert_eq!(errors(text), Vec::<String>::new());
    }

    #[test]
    fn relations_that_do_not_hold_are_refused() {
        let text = "ip = \"10.7.0.0/30\"\nnet = true\nprograms = [\"/no:x\"]\n\
            [fabric]\nlayout = \"cores\"\npaths = 2\nmesh = \"1x2\"\nexpress-part = \"2M\"\ncard-arguments = [\"--termini=16\"]\n\
            [[machine]]\nsettings = { termini = 16 }\n\
            [[machine]]\nname = \"vm0\"\nmodel = \"dart\"\nimage = \"/no\"\npackages = [\"fio\"]\n\
            [[machine]]\nsettings = { packet-size = 1 }\nfiles = [{ source = \"/no\", destination = \"a\" }]\n\
            [machine.settings.more]\n";
        // A table is not a number.
        assert!(parse(text).is_err());
        let text = text.replace("[machine.settings.more]\n", "[[machine]]\nsettings = { wheels = 4 }\n");
        let text = text
            + "[[run]]\nmachine = \"x\"\ncommand = \"true\"\nready = \"\"\n\
            [[expect]]\nof = \"x\"\ncounter = \"a\"\n[[expect]]\nno-kernel-warnings = true\nequals = 1\n\
            [[expect]]\ncounter = \"a\"\nat-least = 2\nat-most = 1\n[[expect]]\n";
        let errors = errors(&text);
        let lines = [
            "1: ip: the range is for 2 machines, not 4",
            "1: name: is missing",
            "2: net: the network links two machines, not 4",
            "3: programs: /no is not a file",
            "5: fabric.layout: the layout cores needs a list",
            "6: fabric.paths: a mesh has one path",
            "7: fabric.mesh: 2 nodes are too few for 4 cards",
            "8: fabric.express-part: express memory is off",
            "11: machine.settings.termini: fabric.card-arguments sets --termini",
            "13: machine.name: two machines have the name vm0",
            "14: machine.model: cards of the models hamlyn and dart speak different protocols",
            "15: machine.image: /no is not a file",
            "16: machine.packages: a machine has either image or packages",
            "18: machine.settings: packet size 1 is out of range",
            "19: machine.files.destination: \"a\" is not the path of a file",
            "19: machine.files.source: /no is not a file",
            "21: machine.settings.wheels: model hamlyn has no setting wheels; it has: ",
            "23: run.machine: machine \"x\" does not exist; the lab has: vm0, vm0, vm2, vm3",
            "25: run.ready: a text of 0 bytes is out of range (limits 1 and",
            "25: run.ready: only a run with background = true",
            "26: expect: a counter needs equals",
            "27: expect.of: \"x\" is neither switch nor a machine",
            "29: expect: only a counter has",
            "34: expect.at-least: 2 is more than at-most, 1",
            "36: expect: needs counter",
        ];
        assert_eq!(errors.len(), lines.len(), "{errors:#?}");
        for (error, line) in errors.iter().zip(lines) {
            assert!(error.starts_with(line), "{error}\n{line}");
        }
    }
}
