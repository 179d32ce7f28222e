//! The manual pages. Section 1 is made from the programs' command lines; what these do not have is
//! here: statuses, variables, neighbours. Sections 3 and 4 are made from the C library's header and
//! from the driver's sources.

mod device;
mod library;

use std::io;

use clap::builder::Resettable;
use clap::{Arg, ArgAction, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};
use hamlyn_cli::commands::Cli;

/// What begins the examples in a command's help.
const EXAMPLES: [&str; 2] = ["Examples:\n", "Example:\n"];

/// A page: its file's name and its text.
pub type Page = (String, String);

/// Returns every program's command line.
#[must_use]
pub fn commands() -> Vec<Command> {
    [hamlyn_tools::commands(), vec![run(), Cli::command()]].concat()
}

/// Returns the command line of the script `guest-lib/sockets/hamlyn-run`, as its usage has it.
fn run() -> Command {
    let option = |name: &'static str, help: &'static str| Arg::new(name).long(name).help(help);
    Command::new("hamlyn-run")
        .about("Run a program whose TCP connections go over channels of the card, where both ends are run so")
        .long_about(
            "The program is not changed. A library is loaded before it, which opens a channel beside each TCP connection, \
             and moves the bytes to the channel once both ends have it. The other end is also run so, on a machine \
             with a card of the same network.",
        )
        .arg(option("report", "Append a line of JSON with counts of connections and bytes at the end of each process").value_name("FILE"))
        .arg(option("ring", "Size of each direction's ring: 61440 by default, 4096 to 16773120").value_name("BYTES"))
        .arg(option("by-card", "Never use express memory").action(ArgAction::SetTrue))
        .arg(Arg::new("program").value_name("PROGRAM").required(true).help("The program"))
        .arg(Arg::new("arguments").value_name("ARGUMENT").num_args(0..).help("Its arguments"))
        .after_help("Example:\n  hamlyn-run redis-server --port 7000")
}

/// Returns all pages.
///
/// # Errors
/// Fails if a source cannot be read, or has something that the pages would leave out.
pub fn all() -> io::Result<Vec<Page>> {
    let mut pages = Vec::new();
    for command in commands() {
        pages.extend(of_command(command)?);
    }
    pages.extend(reference()?);
    Ok(pages)
}

/// Returns the pages of sections 3 and 4.
///
/// # Errors
/// Fails if a source cannot be read, or has something that the pages would leave out.
pub fn reference() -> io::Result<Vec<Page>> {
    let mut pages = library::pages()?;
    pages.push(device::page()?);
    Ok(pages)
}

/// A page for the command and one for each of its subcommands that are not hidden, and of theirs:
/// file names and texts.
///
/// # Errors
/// None in practice: a page is written to memory.
pub fn of_command(command: Command) -> io::Result<Vec<Page>> {
    let mut command = command.disable_help_subcommand(true);
    // Gives the subcommands their whole names, and each its --help.
    command.build();
    let all = family(&command);
    let names: Vec<String> = all.iter().map(|command| name(command)).collect();
    all.iter().map(|command| page(command, &names)).collect()
}

/// Returns the command and all its subcommands that are not hidden.
fn family(command: &Command) -> Vec<&Command> {
    let shown = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    std::iter::once(command).chain(shown.flat_map(family)).collect()
}

fn name(command: &Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).to_owned()
}

fn page(command: &Command, family: &[String]) -> io::Result<Page> {
    let name = name(command);
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let manual = Man::new(command.clone().after_help(Resettable::Reset)).manual("Hamlyn");
    // No date: a page changes with what it says.
    let manual = manual.title(&name).source(concat!("Hamlyn ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    manual.render_title(&mut text)?;
    manual.render_name_section(&mut text)?;
    manual.render_synopsis_section(&mut text)?;
    manual.render_description_section(&mut text)?;
    manual.render_options_section(&mut text)?;
    if command.get_subcommands().next().is_some() {
        manual.render_subcommands_section(&mut text)?;
    }
    let mut more = Roff::new();
    list(&mut more, "EXIT STATUS", statuses(&name));
    list(&mut more, "ENVIRONMENT", variables(&name));
    examples(&mut more, &help);
    more.control("SH", ["SEE ALSO"]).text(neighbours(&name, family));
    more.to_writer(&mut text)?;
    Ok((format!("{name}.1"), dateless(&String::from_utf8_lossy(&text))))
}

fn list(page: &mut Roff, title: &str, entries: &[(&str, &str)]) {
    page.control("SH", [title]);
    for (term, meaning) in entries {
        page.control("TP", []).text([bold(*term)]).text([roman(*meaning)]);
    }
}

fn statuses(name: &str) -> &'static [(&'static str, &'static str)] {
    match name {
        "hamlyn-exec" => &[
            ("0 to 254", "That of the program in the machine; 128 and its number if a signal ended it."),
            ("255", "It could not be run, or its machine is gone: standard error says why."),
            ("2", "Also a wrong command line."),
        ],
        "hamlyn-doctor" => &[
            ("0", "Labs can start; there may be warnings."),
            ("1", "Something is missing: its line says what, and the next step."),
            ("2", "The command line is wrong."),
        ],
        "hamlyn-lab-up" => &[
            (
                "0",
                "Every run and every expectation is as the file says; or the lab stayed, and no machine failed.",
            ),
            ("1", "One is not, the file has mistakes, or the lab could not start: standard error says why."),
            ("2", "The command line is wrong."),
        ],
        "hamlyn-run" => &[
            ("any", "That of the program."),
            ("1", "Also if its library is missing: standard error says where it was looked for."),
            ("2", "Also a wrong command line."),
        ],
        "hamlyn-ping" => &[
            ("0", "A message was answered."),
            ("1", "None was, or the peer could not be reached: standard error says why."),
            ("2", "The command line is wrong."),
        ],
        _ => &[
            ("0", "Done, or ended by a signal that asks for it."),
            ("1", "Not done: standard error says why."),
            ("2", "The command line is wrong."),
        ],
    }
}

/// Which variables a program obeys: the tools in a machine, or what runs beside it.
fn variables(name: &str) -> &'static [(&'static str, &'static str)] {
    if is_tool(name) {
        return &[(
            "HAMLYN_CARD",
            "The card: a device such as /dev/hamlyn0, or vfio-user:PATH for a card's socket. The default is /dev/hamlyn0.",
        )];
    }
    &[
        ("HAMLYN_LOG", "How much is logged: error, warn, info (the default), debug or trace."),
        (
            "HAMLYN_RUN",
            "Where sockets and logs are kept: a folder of this user alone, with mode 700. The default is \
             $XDG_RUNTIME_DIR/hamlyn, or hamlyn-UID in the folder for temporary files if that \
             variable is not set or its folder is another user's.",
        ),
        ("HAMLYN_KIT", "The file that names QEMU, kernel and image, as scripts/prepare writes it."),
        ("HAMLYN_CACHE", "The folder of that file, kit.json. The default is .hamlyn, here or above."),
    ]
}

fn is_tool(name: &str) -> bool {
    matches!(name, "hamlyn-info" | "hamlyn-ping" | "hamlyn-perf" | "hamlyn-run")
}

/// Lines as they are.
fn lines(page: &mut Roff, lines: &[&str]) {
    page.control("nf", []);
    for line in lines {
        page.text([roman(*line)]);
    }
    page.control("fi", []);
}

fn to_text(page: &Roff) -> io::Result<String> {
    let mut text = Vec::new();
    page.to_writer(&mut text)?;
    Ok(dateless(&String::from_utf8_lossy(&text)))
}

/// The title with an empty date, which the roff crate leaves out: then what follows would be taken
/// for the date.
fn dateless(page: &str) -> String {
    page.replacen("  \"Hamlyn", " \"\" \"Hamlyn", 1)
}

fn examples(page: &mut Roff, help: &str) {
    let Some(text) = EXAMPLES.iter().find_map(|title| help.split_once(title)).map(|(_, text)| text) else {
        return;
    };
    let shown = text.lines().take_while(|line| line.is_empty() || line.starts_with(' '));
    page.control("SH", ["EXAMPLES"]);
    lines(page, &shown.map(|line| line.strip_prefix("  ").unwrap_or(line)).collect::<Vec<_>>());
}

fn neighbours(name: &str, family: &[String]) -> Vec<Inline> {
    let tools = ["hamlyn-info", "hamlyn-ping", "hamlyn-perf", "hamlyn-run"].map(str::to_owned);
    let all: &[String] = if is_tool(name) { &tools } else { family };
    let others = all.iter().filter(|other| *other != name);
    let others = others.map(|other| (other.as_str(), "(1)"));
    let further: &[_] =
        if is_tool(name) { &[("hamlyn", "(3)"), ("hamlyn", "(4)")] } else { &[("hamlyn-info", "(1)")] };
    let mut line = Vec::new();
    for (other, section) in others.chain(further.iter().copied()) {
        if !line.is_empty() {
            line.push(roman(", "));
        }
        line.extend([bold(other), roman(section)]);
    }
    line
}
