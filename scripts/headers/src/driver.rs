//! The C headers of `guest-driver/include/`, made from the sources of `hamlyn-abi`.
//!
//! Each part of the contract has a header, and every card's folder by itself: nothing here names a
//! card but the first.
//!
//! The contract's files are read with `syn` and written down item by item, in their order and with
//! their comments and the spelling of their numbers. Whatever could not be carried over is an
//! error, never left out in silence: a constant that is neither literal nor a call's code, a
//! structure that is not `repr(C)`, a field type that C has no name for.
//!
//! The fields of a structure are `__le32` and the like if a card or another host accesses it, and
//! `__u32` and the like in the `*_uapi.h` headers.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use syn::{Attribute, Expr, Fields, GenericArgument, Item, Lit, Meta, PathArguments, Type, Visibility};

/// A header: its file's name, its title, and the parts that it is made of.
pub struct Header {
    /// File name, in `guest-driver/include/`.
    pub name: String,
    /// First line of the header's comment.
    title: String,
    /// What it includes, with its quotes or brackets.
    includes: Vec<String>,
    /// The files of the contract, in order.
    pub parts: Vec<Part>,
}

/// A file of the contract.
pub struct Part {
    /// Its module's path in Rust, from the crate's root.
    pub module: String,
    docs: Vec<String>,
    /// Its constants and structures.
    pub items: Vec<Entry>,
}

/// What a file of the contract contains.
pub enum Entry {
    /// A constant.
    Constant {
        /// Its name, in Rust and in C.
        name: String,
        /// Its value as a C expression.
        value: String,
        /// Its comment.
        docs: Vec<String>,
    },
    /// The macro that computes the number of a later model's call.
    CardCall,
    /// A structure.
    Structure {
        /// Its name in Rust.
        rust_name: String,
        /// Its tag in C.
        name: String,
        /// Its comment.
        docs: Vec<String>,
        /// Its members.
        fields: Vec<Field>,
    },
}

/// A member of a structure.
pub struct Field {
    /// Its name, in Rust and in C.
    pub name: String,
    /// Its declaration in C.
    pub declaration: String,
    docs: Vec<String>,
}

/// The folders of the contract that are no card's. Every other is a card, with a header of its own
/// for what its guests see and one for what its users do.
const NO_CARDS: [&str; 3] = ["family", "kernel", "uapi"];
/// The module of a card's folder that driver and library agree on.
const UAPI: &str = "uapi";

/// Reads the contract from the sources of `hamlyn-abi` (its `src` folder) and makes its headers: of
/// the family's parts, then of each card.
///
/// # Errors
/// A file that cannot be read or parsed, or an item that C could not carry.
pub fn read(source: &Path) -> Result<Vec<Header>, String> {
    let mut headers = vec![
        folder(source, "family", "uln.h", "What a guest and any card of the family agree on.")?,
        folder(source, "kernel", "uln_kernel.h", "What the drivers of two hosts agree on.")?,
        folder(source, UAPI, "uln_uapi.h", "What the driver and users of any card agree on.")?,
    ];
    headers[2].includes.insert(0, "<linux/ioctl.h>".into());
    let cards = submodules(&source.join("lib.rs"))?;
    for card in cards.iter().filter(|name| !NO_CARDS.contains(&name.as_str())) {
        headers.extend(card_headers(source, card)?);
    }
    Ok(headers)
}

/// A header of all files of a folder.
fn folder(source: &Path, folder: &str, name: &str, title: &str) -> Result<Header, String> {
    let modules = submodules(&source.join(folder).join("mod.rs"))?;
    let parts =
        modules.iter().map(|module| read_part(source, &[folder, module])).collect::<Result<_, _>>()?;
    let includes = vec!["<linux/types.h>".into()];
    Ok(Header { name: name.into(), title: title.into(), includes, parts })
}

/// What a guest and this card agree on, and, if it has calls of its own, what its driver and its
/// users do.
fn card_headers(source: &Path, card: &str) -> Result<Vec<Header>, String> {
    let (title, name) = (title_case(card), format!("{card}_card.h"));
    let about = format!("What a guest and a {title} card agree on.");
    let mut own = folder(source, card, &name, &about)?;
    own.includes.push("\"uln.h\"".into());
    let (uapi, parts) = own.parts.into_iter().partition(|part| part.module.ends_with("::uapi"));
    own.parts = parts;
    let mut includes = vec!["\"uln_uapi.h\"".to_owned()];
    let speaks = own.parts.iter().any(|part| part.module.ends_with("::wire"));
    if card == "hamlyn" || speaks {
        // What was written before there were others finds all that there was in its two headers.
        own.includes.push("\"uln_kernel.h\"".into());
    }
    if card != "hamlyn" {
        // The numbers of its calls follow from its model's.
        includes.push(format!("{name:?}"));
    }
    let about = format!("What the {title} card's driver and its users agree on.");
    let calls = Header { name: format!("{card}_uapi.h"), title: about, includes, parts: uapi };
    Ok([own, calls].into_iter().filter(|header| !header.parts.is_empty()).collect())
}

fn title_case(name: &str) -> String {
    let (first, rest) = name.split_at(1);
    first.to_uppercase() + rest
}

/// The folder of the contract's sources.
#[must_use]
pub fn source_folder() -> PathBuf {
    crate::repository().join("device/abi/src")
}

fn parse(path: &Path) -> Result<syn::File, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    syn::parse_file(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the public modules: what is private is not part of the contract.
fn submodules(path: &Path) -> Result<Vec<String>, String> {
    let modules = parse(path)?.items.into_iter().filter_map(|item| match item {
        Item::Mod(module) if matches!(module.vis, Visibility::Public(_)) => Some(module.ident.to_string()),
        _ => None,
    });
    Ok(modules.collect())
}

/// Byte order of a structure's numbers. C has types of its own for little-endian numbers, so that
/// sparse finds those that the driver does not convert.
#[derive(Clone, Copy)]
enum Order {
    /// Driver and library share the structure, on one host.
    Native,
    /// A card or another host accesses the structure.
    Little,
}

impl Order {
    /// Only the calls, which a module named `uapi` defines, stay within one host.
    fn of(module: &[&str]) -> Self {
        if module.contains(&UAPI) { Order::Native } else { Order::Little }
    }

    /// How the name of an unsigned number's type begins.
    fn prefix(self) -> &'static str {
        match self {
            Order::Native => "__u",
            Order::Little => "__le",
        }
    }
}

fn read_part(source: &Path, module: &[&str]) -> Result<Part, String> {
    let path = source.join(module.join("/")).with_extension("rs");
    let file = parse(&path)?;
    let order = Order::of(module);
    let mut items = Vec::new();
    for item in &file.items {
        let entry = read_item(item, order).map_err(|error| format!("{}: {error}", path.display()))?;
        items.extend(entry);
    }
    Ok(Part { module: module.join("::"), docs: docs(&file.attrs), items })
}

/// Methods, traits, tests, imports and macros (the statistics' names) are Rust's own; everything
/// else must get a C form.
fn read_item(item: &Item, order: Order) -> Result<Option<Entry>, String> {
    match item {
        Item::Const(constant) => {
            let name = constant.ident.to_string();
            let suffix = if is_type(&constant.ty, "u64") { "ULL" } else { "" };
            let value = literal(&constant.expr).map(|value| value + suffix);
            let value = value.or_else(|| request_code(&constant.expr));
            let value = value.ok_or_else(|| format!("constant {name} is neither literal nor a call"))?;
            Ok(Some(Entry::Constant { value, docs: docs(&constant.attrs), name }))
        }
        Item::Struct(structure) => {
            let rust_name = structure.ident.to_string();
            if !is_repr_c(&structure.attrs) {
                return Err(format!("structure {rust_name} is not repr(C)"));
            }
            let Fields::Named(named) = &structure.fields else {
                return Err(format!("structure {rust_name} has no named fields"));
            };
            let fields =
                named.named.iter().map(|field| read_field(field, order)).collect::<Result<_, _>>()?;
            Ok(Some(Entry::Structure {
                name: snake_case(&rust_name),
                rust_name,
                docs: docs(&structure.attrs),
                fields,
            }))
        }
        Item::Impl(_) | Item::Trait(_) | Item::Use(_) | Item::Mod(_) | Item::Macro(_) => Ok(None),
        Item::Fn(function) if function.sig.ident == "iowr" => Ok(None),
        Item::Fn(function) if function.sig.ident == "card_call" => Ok(Some(Entry::CardCall)),
        _ => Err("an item that is neither constant nor structure".into()),
    }
}

fn read_field(field: &syn::Field, order: Order) -> Result<Field, String> {
    let name = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
    let refusal = || format!("field {name} has a type that C has no name for");
    let declaration = match &field.ty {
        Type::Array(array) => {
            let length = literal(&array.len).ok_or_else(refusal)?;
            format!("{} {name}[{length}]", c_type(&array.elem, order).ok_or_else(refusal)?)
        }
        plain => format!("{} {name}", c_type(plain, order).ok_or_else(refusal)?),
    };
    Ok(Field { docs: docs(&field.attrs), name, declaration })
}

fn c_type(ty: &Type, order: Order) -> Option<String> {
    let Type::Path(path) = ty else { return None };
    let name = path.path.get_ident()?.to_string();
    match name.as_str() {
        "u8" => Some("__u8".into()),
        "u16" | "u32" | "u64" => Some(format!("{}{}", order.prefix(), &name[1..])),
        "i32" | "i64" if matches!(order, Order::Native) => Some(format!("__s{}", &name[1..])),
        other => is_structure(other).then(|| format!("struct {}", snake_case(other))),
    }
}

fn is_type(ty: &Type, name: &str) -> bool {
    matches!(ty, Type::Path(path) if path.path.is_ident(name))
}

fn is_repr_c(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("repr")
            && attribute.parse_args::<syn::Ident>().is_ok_and(|kind| kind == "C")
    })
}

/// An integer literal, with its sign, in the source's own base.
fn literal(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(integer) => Some(integer.token().to_string().replace('_', "")),
            _ => None,
        },
        Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Neg(_)) => {
            literal(&unary.expr).map(|value| format!("(-{value})"))
        }
        _ => None,
    }
}

/// `iowr::<T>(number)` is C's `_IOWR('H', number, struct t)`; `card_call::<T>(model, number)` is
/// the same with the number that a later model's call has.
fn request_code(expression: &Expr) -> Option<String> {
    let Expr::Call(call) = expression else { return None };
    let Expr::Path(function) = &*call.func else { return None };
    let segment = function.path.segments.last()?;
    let PathArguments::AngleBracketed(types) = &segment.arguments else { return None };
    let Some(GenericArgument::Type(argument)) = types.args.first() else { return None };
    let arguments: Vec<&Expr> = call.args.iter().collect();
    let number = match (segment.ident.to_string().as_str(), &*arguments) {
        ("iowr", [number]) => literal(number)?,
        ("card_call", [model, number]) => {
            format!("ULN_CARD_CALL({}, {})", literal(model).or_else(|| constant(model))?, literal(number)?)
        }
        _ => return None,
    };
    Some(format!("_IOWR('H', {number}, {})", c_type(argument, Order::Native)?))
}

/// The name of a constant.
fn constant(expression: &Expr) -> Option<String> {
    let Expr::Path(path) = expression else { return None };
    path.path.segments.last().map(|segment| segment.ident.to_string())
}

fn docs(attributes: &[Attribute]) -> Vec<String> {
    attributes.iter().filter_map(doc_line).collect()
}

/// A line of a doc comment, without Rust's links: ``[`crate::hamlyn::request`]`` becomes `request`.
fn doc_line(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    let Expr::Lit(literal) = &pair.value else { return None };
    let Lit::Str(text) = &literal.lit else { return None };
    if !pair.path.is_ident("doc") {
        return None;
    }
    let mut line = String::new();
    for (number, piece) in text.value().split('`').enumerate() {
        let plain = piece.strip_prefix(']').unwrap_or(piece);
        let plain = plain.strip_suffix('[').unwrap_or(plain);
        line.push_str(&if number % 2 == 1 { c_name(piece) } else { plain.to_owned() });
    }
    Some(line.trim_end().to_owned())
}

/// What C calls the thing that a doc comment names: `HamlynQueueWait::timeout_ns` is
/// `hamlyn_queue_wait.timeout_ns`.
fn c_name(code: &str) -> String {
    let parts: Vec<&str> = code.split("::").collect();
    let last = parts.last().copied().unwrap_or_default();
    match parts.len().checked_sub(2).map(|owner| parts[owner]) {
        Some(owner) if is_structure(owner) => format!("{}.{last}", snake_case(owner)),
        _ if is_structure(last) => snake_case(last),
        _ => last.to_owned(),
    }
}

/// Structures alone have names like this.
fn is_structure(name: &str) -> bool {
    name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase)
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

impl Header {
    /// The header's text.
    #[must_use]
    pub fn text(&self) -> String {
        let guard = format!("_{}", self.name.to_uppercase().replace('.', "_"));
        let mut text =
            String::from("/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */\n");
        let made = "Made from device/abi by cargo run -p hamlyn-headers: do not edit.";
        text.push_str(&comment("", &[format!(" {}", self.title), String::new(), format!(" {made}")]));
        let _ = writeln!(text, "#ifndef {guard}\n#define {guard}\n");
        for include in &self.includes {
            let _ = writeln!(text, "#include {include}");
        }
        for part in &self.parts {
            let _ = write!(text, "\n{}", comment("", &part.docs));
            for item in &part.items {
                let _ = write!(text, "\n{}", item.text());
            }
        }
        let _ = writeln!(text, "\n#endif /* {guard} */");
        text
    }
}

impl Entry {
    fn text(&self) -> String {
        match self {
            Entry::Constant { name, value, docs } => comment("", docs) + &definition(name, value),
            Entry::CardCall => {
                let docs = [" The number of a call, 0 to 15, of a later model.".into()];
                let number = "((model) - ULN_FIRST_LATER_MODEL) * ULN_CARD_CALLS + (number)";
                let lines = ["#define ULN_CARD_CALL(model, number)", "\t(ULN_FIRST_CARD_CALL +"];
                comment("", &docs) + &lines.join(" \\\n") + &format!(" \\\n\t {number})\n")
            }
            Entry::Structure { name, docs, fields, .. } => {
                let mut text = format!("{}struct {name} {{\n", comment("", docs));
                for field in fields {
                    let _ = writeln!(text, "{}\t{};", comment("\t", &field.docs), field.declaration);
                }
                text + "};\n"
            }
        }
    }
}

/// The longest line, with tabs of 8 columns.
const COLUMNS: usize = 100;

/// The definition of a constant, in two lines if it is longer than [`COLUMNS`].
fn definition(name: &str, value: &str) -> String {
    let line = format!("#define {name} {value}");
    if line.len() <= COLUMNS { line + "\n" } else { format!("#define {name} \\\n\t{value}\n") }
}

/// Fills each paragraph anew that has a line of more than [`COLUMNS`].
fn fill(indent: &str, lines: &[String]) -> Vec<String> {
    let room = COLUMNS - indent.len() * 8 - " *".len();
    let stands_alone =
        |line: &String| line.is_empty() || [" #", " |"].iter().any(|mark| line.starts_with(mark));
    let mut filled = Vec::new();
    for paragraph in lines.chunk_by(|one, next| !stands_alone(one) && !stands_alone(next)) {
        if paragraph.iter().all(|line| line.len() <= room) {
            filled.extend_from_slice(paragraph);
            continue;
        }
        let mut line = String::new();
        for word in paragraph.iter().flat_map(|line| line.split_whitespace()) {
            if !line.is_empty() && line.len() + " ".len() + word.len() > room {
                filled.push(std::mem::take(&mut line));
            }
            line.extend([" ", word]);
        }
        filled.push(line);
    }
    filled
}

/// A comment in the kernel's style; each line comes with its leading space.
fn comment(indent: &str, lines: &[String]) -> String {
    let room = COLUMNS - indent.len() * 8 - "/* */".len();
    match &*fill(indent, lines) {
        [] => String::new(),
        [line] if line.len() <= room => format!("{indent}/*{line} */\n"),
        lines => {
            let mut text = format!("{indent}/*\n");
            for line in lines {
                let _ = writeln!(text, "{indent} *{line}");
            }
            text + indent + " */\n"
        }
    }
}
