//! The C headers of `guest-driver/include/`, made from the sources of `hamlyn-abi`.
//!
//! The contract's files are read with `syn` and written down item by item, in their order and with their comments and
//! the spelling of their numbers. Whatever could not be carried over is an error, never left out in silence: a
//! constant that is neither literal nor request code, a structure that is not `repr(C)`, a field type that C has no name for.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use syn::{Attribute, Expr, Fields, GenericArgument, Item, Lit, Meta, PathArguments, Type};

/// A header: its file's name, its title, and the parts that it is made of.
pub struct Header {
    /// File name, in `guest-driver/include/`.
    pub name: &'static str,
    /// First line of the header's comment.
    title: &'static str,
    /// What it includes.
    includes: &'static [&'static str],
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
    declaration: String,
    docs: Vec<String>,
}

/// Reads the contract from the sources of `hamlyn-abi` (its `src` folder) and makes both headers.
///
/// # Errors
/// A file that cannot be read or parsed, or an item that C could not carry.
pub fn read(source: &Path) -> Result<[Header; 2], String> {
    let mut card = Vec::new();
    for folder in ["family", "hamlyn", "kernel"] {
        for module in submodules(&source.join(folder).join("mod.rs"))? {
            card.push(read_part(source, &[folder, &module])?);
        }
    }
    Ok([
        Header {
            name: "hamlyn_card.h",
            title: "What a guest and a Hamlyn card agree on.",
            includes: &["linux/types.h"],
            parts: card,
        },
        Header {
            name: "hamlyn_uapi.h",
            title: "What the Hamlyn driver and its users agree on.",
            includes: &["linux/ioctl.h", "linux/types.h"],
            parts: vec![read_part(source, &["uapi"])?],
        },
    ])
}

/// The files that [`read`] reads, below the `src` folder's parent: for a build script's benefit.
#[must_use]
pub fn source_folder(tests: &Path) -> PathBuf {
    tests.join("../device/abi/src")
}

fn parse(path: &Path) -> Result<syn::File, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    syn::parse_file(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn submodules(path: &Path) -> Result<Vec<String>, String> {
    let modules = parse(path)?.items.into_iter().filter_map(|item| match item {
        Item::Mod(module) => Some(module.ident.to_string()),
        _ => None,
    });
    Ok(modules.collect())
}

fn read_part(source: &Path, module: &[&str]) -> Result<Part, String> {
    let path = source.join(module.join("/")).with_extension("rs");
    let file = parse(&path)?;
    let mut items = Vec::new();
    for item in &file.items {
        let entry = read_item(item).map_err(|error| format!("{}: {error}", path.display()))?;
        items.extend(entry);
    }
    Ok(Part { module: module.join("::"), docs: docs(&file.attrs), items })
}

/// Methods, tests, imports and macros (the statistics' names) are Rust's own; everything else must get a C form.
fn read_item(item: &Item) -> Result<Option<Entry>, String> {
    match item {
        Item::Const(constant) => {
            let name = constant.ident.to_string();
            let suffix = if is_type(&constant.ty, "u64") { "ULL" } else { "" };
            let value = literal(&constant.expr).map(|value| value + suffix);
            let value = value.or_else(|| request_code(&constant.expr));
            let value = value.ok_or_else(|| format!("constant {name} is neither literal nor iowr"))?;
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
            let fields = named.named.iter().map(read_field).collect::<Result<_, _>>()?;
            Ok(Some(Entry::Structure {
                name: snake_case(&rust_name),
                rust_name,
                docs: docs(&structure.attrs),
                fields,
            }))
        }
        Item::Impl(_) | Item::Use(_) | Item::Mod(_) | Item::Macro(_) => Ok(None),
        Item::Fn(function) if function.sig.ident == "iowr" => Ok(None),
        _ => Err("an item that is neither constant nor structure".into()),
    }
}

fn read_field(field: &syn::Field) -> Result<Field, String> {
    let name = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
    let refusal = || format!("field {name} has a type that C has no name for");
    let declaration = match &field.ty {
        Type::Array(array) => {
            let length = literal(&array.len).ok_or_else(refusal)?;
            format!("{} {name}[{length}]", c_type(&array.elem).ok_or_else(refusal)?)
        }
        plain => format!("{} {name}", c_type(plain).ok_or_else(refusal)?),
    };
    Ok(Field { docs: docs(&field.attrs), name, declaration })
}

fn c_type(ty: &Type) -> Option<String> {
    let Type::Path(path) = ty else { return None };
    let name = path.path.get_ident()?.to_string();
    match name.as_str() {
        "u8" | "u16" | "u32" | "u64" => Some(format!("__u{}", &name[1..])),
        "i32" | "i64" => Some(format!("__s{}", &name[1..])),
        other => other.starts_with("Hamlyn").then(|| format!("struct {}", snake_case(other))),
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

/// `iowr::<T>(number)` is C's `_IOWR('H', number, struct t)`.
fn request_code(expression: &Expr) -> Option<String> {
    let Expr::Call(call) = expression else { return None };
    let Expr::Path(function) = &*call.func else { return None };
    let segment = function.path.segments.last().filter(|segment| segment.ident == "iowr")?;
    let PathArguments::AngleBracketed(types) = &segment.arguments else { return None };
    let (Some(GenericArgument::Type(argument)), Some(number)) = (types.args.first(), call.args.first())
    else {
        return None;
    };
    Some(format!("_IOWR('H', {}, {})", literal(number)?, c_type(argument)?))
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

/// What C calls the thing that a doc comment names: `HamlynQueueWait::timeout_ns` is `hamlyn_queue_wait.timeout_ns`.
fn c_name(code: &str) -> String {
    let parts: Vec<&str> = code.split("::").collect();
    let last = parts.last().copied().unwrap_or_default();
    let is_structure = |part: &str| part.starts_with("Hamlyn");
    match parts.len().checked_sub(2).map(|owner| parts[owner]) {
        Some(owner) if is_structure(owner) => format!("{}.{last}", snake_case(owner)),
        _ if is_structure(last) => snake_case(last),
        _ => last.to_owned(),
    }
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
        let made = "Made from device/abi by cargo run -p hamlyn-tests --bin headers: do not edit.";
        text.push_str(&comment("", &[format!(" {}", self.title), String::new(), format!(" {made}")]));
        let _ = writeln!(text, "#ifndef {guard}\n#define {guard}\n");
        for include in self.includes {
            let _ = writeln!(text, "#include <{include}>");
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
            Entry::Constant { name, value, docs } => format!("{}#define {name} {value}\n", comment("", docs)),
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

/// A comment in the kernel's style; each line comes with its leading space.
fn comment(indent: &str, lines: &[String]) -> String {
    match lines {
        [] => String::new(),
        [line] => format!("{indent}/*{line} */\n"),
        lines => {
            let mut text = format!("{indent}/*\n");
            for line in lines {
                let _ = writeln!(text, "{indent} *{line}");
            }
            text + indent + " */\n"
        }
    }
}
