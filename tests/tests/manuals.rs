//! The manual pages say what the programs' `--help` says: they are made from the same command
//! lines.

use std::fs;
use std::path::Path;

use hamlyn_headers::library;
use hamlyn_manuals::{self as manuals, commands};

#[test]
fn tool_pages_have_every_option() {
    for command in hamlyn_tools::commands() {
        let page = manuals::of_command(command.clone()).unwrap().remove(0).1.replace('\\', "");
        for long in command.get_arguments().filter_map(|argument| argument.get_long()) {
            assert!(page.contains(&format!("--{long}")), "{}: --{long}", command.get_name());
        }
    }
}

/// The script's page is written by hand.
#[test]
fn page_of_run_has_its_usage() {
    let script =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../guest-lib/sockets/hamlyn-run")).unwrap();
    let usage = script.lines().filter_map(|line| line.strip_prefix("#   --"));
    let usage: Vec<(&str, &str)> = usage.map(|line| line.split_once("  ").unwrap()).collect();
    assert_eq!(usage.len(), 3);
    let run = manuals::commands().into_iter().find(|command| command.get_name() == "hamlyn-run").unwrap();
    let options: Vec<_> = run.get_arguments().filter(|argument| argument.get_long().is_some()).collect();
    assert_eq!(options.len(), usage.len());
    for (option, (name, help)) in options.iter().zip(usage) {
        assert_eq!(option.get_long(), name.split(' ').next());
        assert_eq!(option.get_help().unwrap().to_string().to_lowercase(), help.trim().to_lowercase());
    }
}

#[test]
fn pages_have_the_usual_sections() {
    let of_section_1 =
        ["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "ENVIRONMENT", "EXAMPLES", "SEE ALSO"];
    let others = ["NAME", "SYNOPSIS", "DESCRIPTION", "SEE ALSO"];
    for (name, text) in manuals::all().unwrap() {
        let wanted = if name.ends_with(".1") { &of_section_1[..] } else { &others };
        for section in wanted {
            let has = |title: &str| text.lines().any(|line| line.replace('"', "") == format!(".SH {title}"));
            assert!(has(section), "{name} has no {section}");
        }
        let title = text.lines().find(|line| line.starts_with(".TH ")).unwrap();
        assert!(
            title.contains(" \"\" \"Hamlyn "),
            "{name}: without a date the version takes its place: {title}"
        );
    }
}

#[test]
fn functions_calls_and_parameters_are_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let pages = manuals::reference().unwrap();
    let text = |ending: &str| -> String {
        let pages = pages.iter().filter(|(name, _)| name.ends_with(ending));
        pages.map(|(_, text)| text.replace('\\', "")).collect()
    };
    let (library, device) = (text(".3"), text(".4"));
    let header = library::HEADERS.iter().find(|header| header.name == "hamlyn.h").unwrap().text().unwrap();
    let lines = header
        .lines()
        .filter(|line| ["int ", "void ", "const char "].iter().any(|kind| line.starts_with(kind)));
    for line in lines {
        let name = line.split('(').next().unwrap().rsplit([' ', '*']).next().unwrap();
        assert!(library.contains(&format!("{name}()")), "{name}");
    }
    let header = |name| fs::read_to_string(root.join("guest-driver/include").join(name)).unwrap();
    let calls = header("uln_uapi.h") + &header("hamlyn_uapi.h");
    for name in calls
        .split_whitespace()
        .filter(|word| word.starts_with("ULN_IOC_") || word.starts_with("HAMLYN_IOC_"))
    {
        assert!(device.contains(name), "{name}");
    }
    for parameter in ["peer_timeout", "reserve", "share"] {
        assert!(device.contains(&format!("{parameter}fR (default")), "{parameter}: {device}");
    }
}

/// A process that can connect to a card's socket acts as its machine. So examples must not use
/// folders where any user can create files.
#[test]
fn example_sockets_are_out_of_reach_of_others() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let documents = fs::read_dir(root.join("docs")).unwrap().map(|file| file.unwrap().path());
    let documents = documents.filter(|file| file.is_file()).chain([root.join("README.md")]);
    let mut texts: Vec<(String, String)> =
        documents.map(|file| (file.display().to_string(), fs::read_to_string(file).unwrap())).collect();
    for (mut command, name) in
        commands().into_iter().map(|command| (command.clone(), command.get_name().to_owned()))
    {
        command.build();
        for one in std::iter::once(&command).chain(command.get_subcommands()) {
            let text = one.clone().render_long_help().to_string();
            texts.push((format!("{name} {} --help", one.get_name()), text));
        }
    }
    for (place, text) in texts {
        for line in text.lines().filter(|line| line.contains("/tmp/")) {
            assert!(!line.contains(".sock") && !line.contains("vfio-user:"), "{place}: {line}");
        }
    }
}
